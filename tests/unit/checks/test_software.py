"""The software channel."""

from __future__ import annotations

import datetime as dt

import pytest

from gpufleet.catalog import Catalog
from gpufleet.checks import ALL_CHECKS
from gpufleet.checks.rules import FieldFinding, Fleet
from gpufleet.spec.load import load_fleet
from tests.unit.checks.fleets import NOW, Judge


def test_unknown_channel_is_refused_with_the_nearest_known_one(judge: Judge) -> None:
    finding = judge({"software.channel": "2026.12"}).only("channel-known")
    assert finding.field == "software.channel"
    assert "2026.11" in finding.remedy


def _findings(judge: Judge, catalog: Catalog, rule: str, branch: int) -> list[FieldFinding]:
    judge()
    loaded = load_fleet(str(judge.folder / "fleet.yaml"), root=judge.folder)
    lock = catalog.locks["2026.11"].model_copy(update={"driver_branch": branch, "driver": f"{branch}.1"})
    locks = {**catalog.locks, "2026.11": lock}
    other = type(catalog)(**{**vars(catalog), "locks": locks})
    check = next(check for check in ALL_CHECKS if check.rule == rule)
    return list(check.run(Fleet(loaded.spec, other, loaded.source, NOW)))


def test_driver_too_old_for_a_gpu_of_the_fleet_is_refused(judge: Judge, catalog: Catalog) -> None:
    findings = _findings(judge, catalog, "driver-runs-gpu", 550)
    assert {finding.severity for finding in findings} == {"error"}
    reported = {finding.message.split(" support ")[1].split(" ")[0] for finding in findings}
    assert reported == {"H100", "A100"}
    assert all("2026.08" in finding.remedy for finding in findings)


def test_driver_new_enough_for_the_newest_gpu_passes(judge: Judge, catalog: Catalog) -> None:
    assert _findings(judge, catalog, "driver-runs-gpu", 555) == []


def test_driver_branch_past_its_support_is_a_warning(judge: Judge, catalog: Catalog) -> None:
    year, month = catalog.locks["2026.11"].driver_eol.split("-")
    last = dt.datetime(int(year), int(month), 28, tzinfo=dt.UTC)
    assert "driver-support" not in judge(now=last).rules
    judge(now=last + dt.timedelta(days=5)).only("driver-support", "warning")


def test_kubernetes_version_outside_the_channel_is_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.kubernetes.version": "1.20"}).only("kubernetes-version")
    assert finding.field == "cloud[0].kubernetes.version"
    assert finding.value == "1.20"
    assert "1.35" in finding.remedy


def test_channel_with_a_driver_missing_from_eks_images_is_refused(judge: Judge) -> None:
    finding = judge({"software.channel": "2026.08"}).only("channel-driver-in-cloud")
    assert finding.field == "software.channel"
    assert "580.159.03" in finding.message
    assert "use1" in finding.message
    assert "2026.11" in finding.remedy


V100 = {"cloud.0.node_groups.3.instance_types": ["p3dn.24xlarge"]}
SLURM = {"cloud.0.scheduler": "slurm", "cloud.0.kubernetes": None}


def test_gpus_older_than_turing_are_refused_with_open_kernel_modules(judge: Judge) -> None:
    said = judge(V100 | SLURM)
    assert said.rules == {"open-kernel-modules", "slurm-cloud-unconnected"}
    (finding,) = said.of("open-kernel-modules")
    assert (finding.severity, finding.value) == ("error", "p3dn.24xlarge")
    assert finding.field == "cloud[0].node_groups[3].instance_types[0]"


def test_gpus_older_than_turing_run_on_eks_images_of_their_last_branch(judge: Judge) -> None:
    assert judge(V100).rules == set()
    assert "open-kernel-modules" in judge(V100 | {"software.channel": "2026.08"}).rules


@pytest.mark.parametrize("kind", ["g4dn.metal", "p4d.24xlarge"])
def test_turing_and_newer_gpus_run_with_open_kernel_modules(judge: Judge, kind: str) -> None:
    said = judge({"cloud.0.node_groups.3.instance_types": [kind]} | SLURM)
    assert "open-kernel-modules" not in said.rules


def test_racks_and_slurm_sites_support_the_driver_of_any_channel(judge: Judge) -> None:
    slurm = judge({"software.channel": "2026.08", "cloud.0.scheduler": "slurm", "cloud.0.kubernetes": None})
    assert slurm.rules == {"slurm-cloud-unconnected"}
