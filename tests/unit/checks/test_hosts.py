"""Rack sites."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpufleet.catalog import Catalog
from tests.unit.checks.fleets import FLEET, GONE, Judge

SITE = "onprem.0"


def _second(**changes: Any) -> dict[str, Any]:
    site = copy.deepcopy(FLEET["onprem"][0]) | {
        "site": "dc2",
        "nodes": "gpu[001-004]",
        "bmc": "oob[001-004]",
        "controllers": "head01",
        "login": "gate01",
        "network": "10.61.0.0/24",
        **changes,
    }
    return {"onprem.+": site}


def test_two_sites_with_different_hosts_pass(judge: Judge) -> None:
    assert judge(_second()).rules == {"team-quota"}


def test_host_range_that_overlaps_another_site_is_refused(judge: Judge) -> None:
    reported = judge(_second(nodes="dgx[008-011]", teams=[]))
    finding = reported.only("hosts-overlap")
    assert finding.field == "onprem[1].nodes"
    assert finding.value == "dgx[008-011]"
    assert "dgx008" in finding.message
    assert "'dc1'" in finding.message


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("dgx[008-011]", "1 host of nodes of site 'dc2' is also in nodes of site 'dc1' (dgx008)"),
        ("dgx[007-010]", "2 hosts of nodes of site 'dc2' are also in nodes of site 'dc1' (dgx007, dgx008)"),
    ],
)
def test_overlapping_hosts_are_counted(judge: Judge, nodes: str, message: str) -> None:
    assert judge(_second(nodes=nodes, teams=[])).only("hosts-overlap").message == message


@pytest.mark.parametrize(
    ("role", "hosts"), [("controllers", "dgx001"), ("login", "ctl01"), ("bmc", "dgx[001-008]")]
)
def test_host_with_two_roles_is_refused(judge: Judge, role: str, hosts: str) -> None:
    finding = judge({f"{SITE}.{role}": hosts}).only("hosts-overlap")
    assert finding.field.startswith("onprem[0].")


def test_too_few_bmcs_are_refused(judge: Judge) -> None:
    finding = judge({f"{SITE}.bmc": "bmc[001-007]"}).only("bmc-count")
    assert finding.message == "7 management controllers for 8 nodes"
    assert judge({f"{SITE}.bmc": GONE}).rules == set()


def test_unknown_system_is_refused_with_the_nearest_known_one(judge: Judge) -> None:
    finding = judge({f"{SITE}.system": "dgx-h10"}).only("system-known")
    assert finding.field == "onprem[0].system"
    assert "'dgx-h100'" in finding.remedy


@pytest.mark.parametrize(
    ("kind", "speed", "remedy"),
    [("infiniband", "400gbe", "speed: ndr"), ("roce", "ndr", "speed: 400gbe")],
)
def test_speed_of_the_other_fabric_type_is_refused(judge: Judge, kind: str, speed: str, remedy: str) -> None:
    finding = judge({f"{SITE}.fabric": {"kind": kind, "speed": speed}}).only("fabric-kind")
    assert finding.field == "onprem[0].fabric.speed"
    assert remedy in finding.remedy


def test_fabric_faster_than_the_adapters_is_refused(judge: Judge) -> None:
    finding = judge({f"{SITE}.fabric.speed": "xdr"}).only("fabric-speed")
    assert "400 Gb/s" in finding.message
    assert "speed: ndr" in finding.remedy


def test_fabric_slower_than_the_adapters_is_a_warning(judge: Judge) -> None:
    judge({f"{SITE}.fabric.speed": "hdr"}).only("fabric-speed", "warning")


@pytest.mark.parametrize(
    ("kind", "speed", "remedy"),
    [
        ("infiniband", "xdr", "write 'speed: ndr'"),
        ("roce", "800gbe", "write 'speed: 400gbe'"),
        ("roce", "200gbe", "write 'speed: 400gbe'"),
    ],
)
def test_speed_of_the_adapters_is_suggested(judge: Judge, kind: str, speed: str, remedy: str) -> None:
    reported = judge({f"{SITE}.fabric": {"kind": kind, "speed": speed}})
    assert reported.of("fabric-speed")[0].remedy == remedy


def test_adapters_of_a_speed_without_a_name_have_no_suggestion(judge: Judge) -> None:
    judge.change_catalog("systems", **{"dgx-h100": {"fabric_gbps": 100}})
    finding = judge().only("fabric-speed")
    assert finding.remedy == "see `gpufleet catalog` for the system's adapters"


def test_roce_at_the_speed_of_the_adapters_passes(judge: Judge) -> None:
    assert judge({f"{SITE}.fabric": {"kind": "roce", "speed": "400gbe"}}).rules == set()


@pytest.mark.parametrize("power", ["40 MW", "601 kW", "1000000 W"])
def test_rack_power_above_any_real_rack_is_refused(judge: Judge, power: str) -> None:
    finding = judge({f"{SITE}.power.per_rack": power}).only("rack-power")
    assert finding.value == power
    assert "600 kW" in finding.message


@pytest.mark.parametrize("power", ["600 kW", "132 kW", "0.04 MW", "10.2 kW"])
def test_realistic_rack_power_passes(judge: Judge, power: str) -> None:
    assert judge({f"{SITE}.power.per_rack": power}).rules == set()


def test_site_without_power_passes(judge: Judge) -> None:
    assert judge({f"{SITE}.power": GONE}).of("rack-power") == []


def test_fleet_without_a_site_is_refused(judge: Judge) -> None:
    finding = judge({"cloud": [], "onprem": []}).only("no-site")
    assert finding.value == "atlas"
    assert judge({"cloud": []}).rules == set()
    assert judge({"onprem": []}).of("no-site") == []


def test_rack_that_cannot_power_one_node_is_refused(judge: Judge) -> None:
    finding = judge({f"{SITE}.power.per_rack": "10 kW"}).only("rack-power")
    assert finding.value == "10 kW"
    assert "10.2 kW" in finding.message


def test_slurm_without_a_controller_is_a_warning(judge: Judge) -> None:
    without = {f"{SITE}.controllers": GONE}
    judge(without).only("slurm-controllers", "warning")
    assert judge(without | {f"{SITE}.scheduler": "kubernetes"}).of("slurm-controllers") == []


def test_too_long_fully_qualified_name_is_refused(judge: Judge) -> None:
    finding = judge({f"{SITE}.ssh": {"domain": ".".join(["abcdefghi"] * 25)}}).only("host-names")
    assert finding.field == "onprem[0].ssh.domain"


@pytest.mark.parametrize(("length", "found"), [(245, []), (246, ["onprem[0].ssh.domain"])])
def test_longest_host_name_counts_with_its_domain(judge: Judge, length: int, found: list[str]) -> None:
    domain = ".".join(["a" * 60] * 4 + ["a" * (length - 244)])
    reported = judge({f"{SITE}.ssh": {"domain": domain}})  # after "login01."
    assert reported.fields("host-names") == found


def test_every_system_of_the_catalog_can_be_declared(judge: Judge, catalog: Catalog) -> None:
    for name in catalog.systems:
        assert "system-known" not in judge({f"{SITE}.system": name}).rules
