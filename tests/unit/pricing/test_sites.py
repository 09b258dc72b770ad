"""What the settings of a site add to the cost of its plan, and what they leave out of it."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.kinds import ALWAYS_SUFFIX
from gpufleet.plan import build_plan
from gpufleet.pricing import by_use
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BLOCK_EXTENSION,
    LAUNCHED_NODES,
    NODE_GROUP,
    RESOLVER_ENDPOINT,
)
from tests.unit.plan.fleets import (
    CATALOG,
    block,
    cloud_site,
    cost_of,
    group,
    line,
    odcr,
    on_demand,
    plan_of,
    rack_site,
    spec,
    spot,
)
from tests.unit.plan.test_slurm_servers import SERVERS

CIDR = {"cidr": "10.40.0.0/16"}
DIRECT = {"gateway": "5f294f92-bafb-4011-916d-9b0bec1f4f35", "networks": ["10.60.0.0/22"]}


def test_racks_alone_leave_out_no_traffic_of_a_cloud() -> None:
    racks = cost_of(build_plan(spec(onprem=[rack_site()]), CATALOG)).not_counted
    cloud = cost_of(plan_of()).not_counted
    for each in (by_use.TOPICS, by_use.TRAFFIC):
        assert each in cloud
        assert each not in racks


@pytest.mark.parametrize("breach", ["notify", "stop-scale-out"])
def test_functions_that_stop_groups_are_left_out_where_there_are_some(breach: str) -> None:
    budget = {"monthly": "100000 USD", "on_breach": breach}
    site = cloud_site(group("a", "g6.xlarge", on_demand(0, 2)))
    found = cost_of(build_plan(spec(cloud=[site], budget=budget), CATALOG))
    assert (by_use.FUNCTIONS in found.not_counted) is (breach != "notify")


def test_electricity_counts_the_nodes_with_gpus_alone() -> None:
    roles = {"controllers": "ctl01", "login": "login01"}
    whole, more = (build_plan(spec(onprem=[rack_site(**each)]), CATALOG) for each in ({}, roles))
    assert line(more, "racks", "power").expected == line(whole, "racks", "power").expected


@pytest.mark.parametrize("direct", [None, DIRECT])
def test_direct_connect_is_left_out_where_there_is_one(direct: Any) -> None:
    network = CIDR | ({"direct_connect": direct} if direct else {})
    assert (by_use.DIRECT_CONNECT in cost_of(plan_of(network=network)).not_counted) is bool(direct)


def test_each_direction_of_dns_has_an_endpoint() -> None:
    vpn = {"gateway": "203.0.113.7", "networks": ["10.60.0.0/22"]}
    found = cost_of(plan_of(network=CIDR | {"vpn": vpn, "dns": {"inbound": True}}))
    assert [each.name for each in found.lines if each.type == RESOLVER_ENDPOINT] == [
        "atlas-test-use1-dns-inbound"
    ]


@pytest.mark.parametrize(
    ("site", "kind"),
    [
        ({}, AUTO_SCALING_GROUP),
        ({"slurm": {"servers": SERVERS}}, LAUNCHED_NODES),
        ({"scheduler": "kubernetes"}, NODE_GROUP),
    ],
)
def test_scheduler_of_a_site_decides_what_starts_its_nodes(site: dict[str, Any], kind: str) -> None:
    nodes = group("a", "g6.xlarge", on_demand(0, 2), team="research")
    priced = line(plan_of(nodes, **site), "a", "compute")
    assert (priced.type, priced.team) == (kind, "research")


def test_group_without_a_team_has_none_in_its_cost() -> None:
    assert line(plan_of(group("a", "g6.xlarge", on_demand(0, 2))), "a", "compute").team == ""


def test_metadata_iops_of_lustre_have_their_own_line() -> None:
    lustre = {"throughput": "125 MB/s/TiB", "capacity": "1200 GiB"}
    for more, count in (({}, 1), ({"metadata_iops": 6000}, 2)):
        plan = plan_of(storage=[{"name": "fs", "mount": "/fsx", "lustre": lustre | more}])
        found = [each for each in cost_of(plan).lines if (each.owner, each.kind) == ("fs", "storage")]
        assert len(found) == count


@pytest.mark.parametrize("shared", [None, "/shared"])
def test_files_are_left_out_where_the_servers_of_slurm_share_some(shared: str | None) -> None:
    found = cost_of(plan_of(slurm={"servers": SERVERS | {"shared": shared}}))
    assert (by_use.FILES in found.not_counted) is bool(shared)


@pytest.mark.parametrize("access", ["direct", "phased"])
def test_node_pools_cost_nothing_until_the_cluster_can_be_reached(access: str) -> None:
    kubernetes = {"autoscaler": {"kind": "karpenter"}, "access": access}
    nodes = group("a", "g6.xlarge", on_demand(0, 2))
    found = cost_of(plan_of(nodes, scheduler="kubernetes", kubernetes=kubernetes))
    kinds = {each.kind for each in found.lines if each.owner == "a"}
    assert kinds == (set() if access == "phased" else {"compute", "storage"})


@pytest.mark.parametrize(
    ("capacity", "name"),
    [
        (spot(0, 2), "spot"),
        (spot(0, 2, "on-demand"), "spot, else on-demand"),
        (on_demand(0, 2), "on-demand"),
    ],
)
def test_nodes_of_a_node_pool_are_bought_as_the_fleet_file_says(capacity: dict[str, Any], name: str) -> None:
    kubernetes = {"autoscaler": {"kind": "karpenter"}}
    plan = plan_of(group("a", "g6.xlarge", capacity), scheduler="kubernetes", kubernetes=kubernetes)
    assert line(plan, "a", "compute").bought == name


@pytest.mark.parametrize(
    ("least", "most", "pools"),
    [
        (0, 3, {"atlas-test-use1-a": 3}),
        (1, 3, {"atlas-test-use1-a": 2, f"atlas-test-use1-a{ALWAYS_SUFFIX}": 1}),
        (2, 2, {"atlas-test-use1-a": 2}),
    ],
)
def test_nodes_that_always_run_have_their_own_pool(least: int, most: int, pools: dict[str, int]) -> None:
    nodes = group("a", "g6.xlarge", on_demand(least, most))
    kubernetes = {"autoscaler": {"kind": "karpenter"}}
    found = cost_of(plan_of(nodes, scheduler="kubernetes", kubernetes=kubernetes))
    node = 730 * (CATALOG.on_demand("g6.xlarge", "us-east-1").amount or 0)
    lines = [each for each in found.lines if (each.owner, each.kind) == ("a", "compute")]
    assert {each.name: each.maximum for each in lines} == {
        name: number * node for name, number in pools.items()
    }


def test_spot_group_of_a_fixed_size_has_no_pool_that_grows() -> None:
    nodes = group("a", "g6.xlarge", spot(2, 2, "on-demand"))
    kubernetes = {"autoscaler": {"kind": "karpenter"}}
    found = cost_of(plan_of(nodes, scheduler="kubernetes", kubernetes=kubernetes))
    names = [each.name for each in found.lines if (each.owner, each.kind) == ("a", "compute")]
    assert names == [f"atlas-test-use1-a{ALWAYS_SUFFIX}"]


def test_reserved_nodes_of_a_node_pool_cost_the_same_without_nodes() -> None:
    nodes = group("a", "g6.xlarge", odcr(2), zones=["us-east-1a"])
    kubernetes = {"autoscaler": {"kind": "karpenter", "reserved_nodes": "node-pools"}}
    plan = plan_of(nodes, scheduler="kubernetes", kubernetes=kubernetes)
    reserved, volumes = (line(plan, "a", kind) for kind in ("compute", "storage"))
    assert reserved.minimum == reserved.maximum
    assert (volumes.minimum, volumes.expected) == (0, 0)


def test_nodes_that_slurm_launches_are_one_line_at_most_on_demand() -> None:
    nodes = group("a", "g6.xlarge", spot(0, 4, "on-demand"))
    priced = line(plan_of(nodes, slurm={"servers": SERVERS}), "a", "compute")
    assert (priced.minimum, priced.expected, priced.bought) == (0, 0, "on-demand")
    assert priced.maximum == 4 * 730 * (CATALOG.on_demand("g6.xlarge", "us-east-1").amount or 0)


def test_extension_of_a_block_counts_in_the_hours_of_a_month_after_the_block() -> None:
    nodes = group("a", "p5.48xlarge", block(1, duration="14 d", extensions=["28 d"]))
    found = [each for each in cost_of(plan_of(nodes)).lines if each.type == BLOCK_EXTENSION]
    rate = CATALOG.capacity_block("p5.48xlarge", "us-east-1").amount or 0
    assert [(each.upfront, each.expected) for each in found] == [(672 * rate, (730 - 336) * rate)]
