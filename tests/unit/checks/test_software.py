"""The software channel."""

from __future__ import annotations

import datetime as dt

import pytest

from gpufleet.catalog import Catalog
from gpufleet.findings import Finding
from tests.unit.checks.fleets import GONE, Judge
from tests.unit.checks.test_networks import SLURM


def test_unknown_channel_is_refused_with_the_nearest_known_one(judge: Judge) -> None:
    finding = judge({"software.channel": "2026.12"}).only("channel-known")
    assert finding.field == "software.channel"
    assert "2026.11" in finding.remedy


def _drivers(judge: Judge, branch: int, other: int) -> list[Finding]:
    """The findings on GPUs with this driver in the fleet's channel, and another one in 2026.08."""
    changes = {"2026.11": branch, "2026.08": other}
    judge.change_catalog(
        "locks", **{name: {"driver_branch": b, "driver": f"{b}.1"} for name, b in changes.items()}
    )
    return judge().of("driver-runs-gpu")


@pytest.mark.parametrize(
    ("other", "remedy"), [(555, "use channel 2026.08"), (554, "wait for a channel with that branch")]
)
def test_driver_too_old_for_a_gpu_of_the_fleet_is_refused(judge: Judge, other: int, remedy: str) -> None:
    found = _drivers(judge, 554, other)
    assert [finding.message for finding in found] == [
        f"driver 554.1 of channel 2026.11 does not support {gpu}, which needs branch 555 or later"
        for gpu in ("A100 (use1/held, use1/sweep)", "H100 (use1/train, use1/block, dc1)")
    ]
    assert {(finding.severity, finding.remedy) for finding in found} == {("error", remedy)}


def test_driver_new_enough_for_the_newest_gpu_passes(judge: Judge) -> None:
    assert _drivers(judge, 555, 555) == []


def test_driver_of_an_unknown_system_is_not_judged(judge: Judge) -> None:
    for channel in ("2026.11", "2026.08"):
        reported = judge({"onprem.0.system": "dgx-z9", "software.channel": channel})
        assert reported.rules - {"channel-driver-in-cloud"} == {"system-known"}


def test_driver_branch_past_its_support_is_a_warning(judge: Judge, catalog: Catalog) -> None:
    year, month = catalog.locks["2026.11"].driver_eol.split("-")
    last = dt.datetime(int(year), int(month), 28, tzinfo=dt.UTC)
    assert "driver-support" not in judge(now=last).rules
    judge(now=last + dt.timedelta(days=5)).only("driver-support", "warning")


@pytest.mark.parametrize(
    ("month", "remedy"),
    [("2028-06", "use channel 2026.11"), ("2028-07", "install a newer gpufleet with newer channels")],
)
def test_channels_that_are_still_supported_are_suggested(judge: Judge, month: str, remedy: str) -> None:
    now = dt.datetime.fromisoformat(f"{month}-28T00:00:00+00:00")
    (finding,) = judge({"software.channel": "2026.08"}, now=now).of("driver-support")
    assert finding.remedy == remedy


def test_kubernetes_version_outside_the_channel_is_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.kubernetes.version": "1.20"}).only("kubernetes-version")
    assert finding.field == "cloud[0].kubernetes.version"
    assert finding.value == "1.20"
    assert "1.35" in finding.remedy


def test_default_kubernetes_version_counts_only_on_kubernetes_sites(judge: Judge) -> None:
    judge.change_catalog("locks", **{"2026.11": {"kubernetes": ("1.36",)}})
    plain = {"cloud.0.kubernetes": GONE, "cloud.0.node_groups.0.team": GONE}
    (finding,) = judge(plain).of("kubernetes-version")
    assert finding.value == "1.35"
    assert judge(SLURM).of("kubernetes-version") == []


def test_channel_with_a_driver_missing_from_eks_images_is_refused(judge: Judge) -> None:
    finding = judge({"software.channel": "2026.08"}).only("channel-driver-in-cloud")
    assert finding.field == "software.channel"
    assert "580.159.03" in finding.message
    assert "use1" in finding.message
    assert finding.remedy == "use channel 2026.11"
    cpu = {"name": "cpu", "instance_types": ["m7i.xlarge"], "capacity": {"on_demand": {"max": 2}}}
    without_gpus = {"cloud.0.node_groups": [cpu], "cloud.0.kubernetes.teams": []}
    assert judge({"software.channel": "2026.08"} | without_gpus).rules == set()
    judge.change_catalog("locks", **{"2026.11": {"eks_ami_driver": "570.1"}})
    finding = judge({"software.channel": "2026.08"}).only("channel-driver-in-cloud")
    assert finding.remedy == "wait for a channel with the driver branch of the images"


OLDER = "use a newer type, such as g4dn.xlarge (T4)"
V100 = {"cloud.0.node_groups.3.instance_types": ["p3dn.24xlarge"]}


def test_gpus_older_than_turing_are_refused_with_open_kernel_modules(judge: Judge) -> None:
    reported = judge(V100 | SLURM)
    assert reported.rules == {"open-kernel-modules", "slurm-cloud-unconnected"}
    (finding,) = reported.of("open-kernel-modules")
    assert (finding.severity, finding.value) == ("error", "p3dn.24xlarge")
    assert finding.field == "cloud[0].node_groups[3].instance_types[0]"
    assert finding.remedy == f"{OLDER}, or a site with 'scheduler: kubernetes'"


def test_gpus_older_than_turing_run_on_eks_images_of_their_last_branch(judge: Judge) -> None:
    assert judge(V100).rules == set()
    (finding,) = judge(V100 | {"software.channel": "2026.08"}).of("open-kernel-modules")
    assert finding.remedy == OLDER


def test_racks_older_than_turing_need_a_channel_of_their_last_branch(judge: Judge) -> None:
    judge.change_catalog("systems", **{"dgx-h100": {"gpu": "V100"}})
    assert judge().of("open-kernel-modules") == []
    assert judge({"software.channel": "2026.08"}).fields("open-kernel-modules") == ["onprem[0].system"]
    judge.change_catalog("systems", **{"dgx-h100": {"gpu": "T4"}})
    assert judge({"software.channel": "2026.08"}).of("open-kernel-modules") == []


@pytest.mark.parametrize("kind", ["g4dn.metal", "p4d.24xlarge"])
def test_turing_and_newer_gpus_run_with_open_kernel_modules(judge: Judge, kind: str) -> None:
    reported = judge({"cloud.0.node_groups.3.instance_types": [kind]} | SLURM)
    assert "open-kernel-modules" not in reported.rules


def test_racks_and_slurm_sites_support_the_driver_of_any_channel(judge: Judge) -> None:
    slurm = judge({"software.channel": "2026.08", "cloud.0.scheduler": "slurm", "cloud.0.kubernetes": None})
    assert slurm.rules == {"slurm-cloud-unconnected"}
