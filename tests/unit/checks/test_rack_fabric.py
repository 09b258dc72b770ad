"""The compute fabric of rack sites."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import GONE, Judge

FABRIC = "onprem.0.fabric"
RAILS = [f"mlx5_{number}" for number in range(8)]
LEAVES = [
    {"name": f"leaf{rail}", "rail": rail, "nodes": "dgx[001-008]", "uplinks": ["spine0"]} for rail in range(8)
]
SPINE = {"name": "spine0", "tier": "spine", "guid": "0x0002c903000e0b72"}
MANAGER = {"host": "ctl01", "priority": 15}


def test_rail_optimized_fabric_with_a_manager_has_no_finding(judge: Judge) -> None:
    reported = judge(
        {
            f"{FABRIC}.rails": RAILS,
            f"{FABRIC}.switches": [*LEAVES, SPINE],
            f"{FABRIC}.subnet_managers": [MANAGER, {"host": "login01", "priority": 1}],
            f"{FABRIC}.partitions": [{"name": "storage", "pkey": "0x0001"}],
            f"{FABRIC}.ipoib": True,
        }
    )
    assert reported.rules == set()


def test_duplicate_switch_name_or_guid_is_refused(judge: Judge) -> None:
    spines = [SPINE, {**SPINE, "name": "spine1"}, {"name": "spine0", "tier": "spine"}]
    reported = judge({f"{FABRIC}.switches": spines})
    fields = [finding.field for finding in reported.of("switch-names")]
    assert fields == ["onprem[0].fabric.switches[1].guid", "onprem[0].fabric.switches[2].name"]


def test_uplink_to_an_unknown_switch_suggests_the_nearest(judge: Judge) -> None:
    switches = [{**LEAVES[0], "uplinks": ["spin0"]}, SPINE]
    finding = judge({f"{FABRIC}.switches": switches}).only("switch-uplinks")
    assert finding.field == "onprem[0].fabric.switches[0].uplinks[0]"
    assert "'spine0'" in finding.remedy


def test_uplink_to_the_same_tier_is_refused(judge: Judge) -> None:
    switches = [{**LEAVES[0], "uplinks": ["leaf1"]}, {**LEAVES[1], "uplinks": []}]
    assert "leaf 'leaf0' has an uplink to leaf 'leaf1'" in (
        judge({f"{FABRIC}.switches": switches}).only("switch-uplinks").message
    )


@pytest.mark.parametrize(
    ("switches", "says"),
    [
        ([{"name": "leaf0", "nodes": "gpu[001-002]"}], "not GPU nodes of site"),
        ([{**SPINE, "nodes": "dgx001"}], "spine 'spine0' has nodes"),
        (
            [
                {"name": "a", "rail": 0, "nodes": "dgx[001-002]"},
                {"name": "b", "rail": 0, "nodes": "dgx[002-003]"},
            ],
            "already on rail 0 of leaf 'a' (dgx002)",
        ),
        ([{"name": f"l{n}", "nodes": "dgx001"} for n in range(9)], "below more than 8 leaves"),
    ],
)
def test_nodes_of_a_switch_belong_to_the_site_and_appear_once_per_rail(
    judge: Judge, switches: list[dict[str, Any]], says: str
) -> None:
    assert says in judge({f"{FABRIC}.switches": switches}).only("switch-nodes").message


def test_each_rail_of_a_node_is_below_one_leaf(judge: Judge) -> None:
    leaves = [{"name": f"l{number}", "nodes": "dgx001"} for number in range(5)]
    four = {f"{FABRIC}.rails": RAILS[:4]}
    (finding,) = judge(four | {f"{FABRIC}.switches": leaves}).of("switch-nodes")
    assert "below more than 4 leaves" in finding.message
    assert judge(four | {f"{FABRIC}.switches": leaves[:4]}).of("switch-nodes") == []


def test_fabric_of_an_unknown_system_is_not_compared_with_its_adapters(judge: Judge) -> None:
    leaves = [{"name": f"l{number}", "nodes": "dgx001"} for number in range(9)]
    assert judge({"onprem.0.system": "dgx-z9", f"{FABRIC}.switches": leaves}).rules == {"system-known"}


def test_number_of_rails_adapters_and_interfaces_must_match(judge: Judge) -> None:
    finding = judge({f"{FABRIC}.rails": RAILS[:4]}).only("fabric-rails", "warning")
    assert finding.message == "4 rails, but dgx-h100 has 8 compute adapters"
    roce = {f"{FABRIC}.kind": "roce", f"{FABRIC}.speed": "400gbe", f"{FABRIC}.rails": RAILS}
    reported = judge(roce | {f"{FABRIC}.interfaces": ["eth0"]})
    assert reported.only("fabric-rails").message == "1 interfaces for 8 rails"
    assert (
        judge({f"{FABRIC}.rails": ["mlx5_0"] * 8}).only("fabric-rails").message
        == "mlx5_0 is listed as two rails"
    )
    of_the_catalog = {**roce, f"{FABRIC}.interfaces": [f"eth{number}" for number in range(8)]}
    del of_the_catalog[f"{FABRIC}.rails"]
    assert judge(of_the_catalog).rules == set()


@pytest.mark.parametrize(
    ("system", "remedy"),
    [
        ("hgx-h100", "write `rails`: the RDMA devices of the fabric"),
        ("dgx-b300", "write `rails`: the RDMA devices of the fabric"),
        (
            "dgx-a100",
            (
                f"write `rails`: {', '.join([*RAILS[:4], *RAILS[6:], 'mlx5_8', 'mlx5_9'])}"
                f" (with two storage adapters) or {', '.join(RAILS)} (with one storage adapter)"
            ),
        ),
    ],
)
def test_a_system_whose_rails_the_catalog_lacks_needs_them_in_the_fleet_file(
    judge: Judge, system: str, remedy: str
) -> None:
    (finding,) = judge({"onprem.0.system": system}).of("fabric-rails")
    assert finding.severity == "warning"
    assert finding.message == (
        f"the catalog has no rails of {system}, and `rails` is not set: a storage port could be used"
        " instead of a failed rail"
    )
    assert finding.remedy == remedy
    assert judge({"onprem.0.system": system, f"{FABRIC}.rails": RAILS}).of("fabric-rails") == []


@pytest.mark.parametrize(
    ("kind", "key", "value", "other"),
    [
        ("infiniband", "roce", {"dscp": 30}, "roce"),
        ("roce", "ipoib", True, "infiniband"),
        ("roce", "subnet_managers", [MANAGER], "infiniband"),
    ],
)
def test_settings_of_the_other_fabric_type_are_refused(
    judge: Judge, kind: str, key: str, value: Any, other: str
) -> None:
    fabric = {f"{FABRIC}.kind": kind, f"{FABRIC}.speed": "400gbe" if kind == "roce" else "ndr"}
    finding = judge(fabric | {f"{FABRIC}.{key}": value}).only("fabric-settings")
    assert finding.field == f"onprem[0].fabric.{key}"
    assert finding.remedy == f"remove it, or use `kind: {other}` and a speed of it"


def test_disabled_settings_of_the_other_fabric_type_pass(judge: Judge) -> None:
    roce = {f"{FABRIC}.kind": "roce", f"{FABRIC}.speed": "400gbe"}
    assert judge(roce | {f"{FABRIC}.ipoib": False, f"{FABRIC}.partitions": []}).rules == set()


@pytest.mark.parametrize(
    ("managers", "says"),
    [
        ([MANAGER, {"host": "login01", "priority": 15}], "priority 15 is declared twice"),
        ([MANAGER, {"host": "ctl01", "priority": 1}], "subnet manager ctl01 is declared twice"),
    ],
)
def test_subnet_managers_run_on_permanent_hosts_with_different_priorities(
    judge: Judge, managers: list[dict[str, Any]], says: str
) -> None:
    assert says in judge({f"{FABRIC}.subnet_managers": managers}).only("subnet-managers").message


@pytest.mark.parametrize(
    ("host", "says", "remedy"),
    [
        ("ctl11", "is a GPU node, which jobs can bring down", "use one of ctl01, ctl02, login01"),
        ("ctl22", "is not a host of site 'dc1'", "did you mean 'ctl02'? If not, use one of"),
        ("opensm", "is not a host of site 'dc1'", "use one of ctl01, ctl02, login01"),
    ],
)
def test_subnet_manager_on_another_host_is_refused(judge: Judge, host: str, says: str, remedy: str) -> None:
    nodes = {"onprem.0.nodes": "ctl[11-18]", f"{FABRIC}.subnet_managers": [{"host": host, "priority": 1}]}
    finding = judge(nodes).only("subnet-managers")
    assert finding.message == f"{host!r} {says}"
    assert finding.remedy.startswith(remedy)
    (finding,) = judge(nodes | {"onprem.0.controllers": GONE, "onprem.0.login": GONE}).of("subnet-managers")
    assert finding.remedy == "declare `controllers` or `login` hosts first"


@pytest.mark.parametrize("pkey", ["0x7fff", "0x0000"])
def test_partition_needs_a_unique_key(judge: Judge, pkey: str) -> None:
    reported = judge({f"{FABRIC}.partitions": [{"name": "a", "pkey": pkey}]})
    assert reported.only("fabric-partitions").field == "onprem[0].fabric.partitions[0].pkey"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("switches", [{**SPINE, "guid": "0002c903000e0b72"}]),
        ("partitions", [{"name": "a", "pkey": "0x8001"}]),
        ("subnet_managers", [{"host": "ctl01", "priority": 16}]),
        ("roce", {"priority": 0}),
        ("roce", {"mtu": 100}),
        ("rails", ["mlx5 0"]),
    ],
)
def test_value_out_of_range_is_found_on_load(judge: Judge, field: str, value: Any) -> None:
    from gpufleet.errors import SpecError

    with pytest.raises(SpecError) as refused:
        judge({f"{FABRIC}.{field}": value})
    assert all(finding.remedy for finding in refused.value.findings)
    assert any(f"fabric.{field}" in finding.field for finding in refused.value.findings)
