"""Karpenter's node pools cost what their limits allow: types, purchase options, reservations, volumes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import CAPACITY_BLOCK, CAPACITY_RESERVATION
from tests.unit.pricing.node_pools import CAPACITY, TYPE, ZONE, need, node_class, pool, pool_cost
from tests.unit.pricing.stacks import CATALOG, MONTH, amounts, cost, why_unknown

NAMED = "cr-0123456789abcdef0"
HOURLY = CATALOG.on_demand("g6.xlarge", "us-east-1").amount or Decimal(0)
NODE = HOURLY * MONTH
TERMS = "capacityReservationSelectorTerms"
RESERVATION = "karpenter.k8s.aws/capacity-reservation-type"
DISK = Decimal(8)
"""100 GiB gp3 for a month."""


def types(*names: str) -> dict[str, Any]:
    return need(TYPE, *names)


def reserved(*kinds: str, name: str = "g6.xlarge", nodes: int = 4) -> dict[str, Any]:
    """A pool of nodes in a reservation of one of the kinds; of any kind without one."""
    limits = [need(RESERVATION, *kinds)] if kinds else []
    return pool(types(name), need(CAPACITY, "reserved"), ZONE, *limits, limits={"nvidia.com/gpu": nodes})


def in_reservation(*terms: Any) -> dict[str, Any]:
    return node_class(TERMS, list(terms))


def odcr(count: int, **props: Any) -> dict[str, Any]:
    given = {"id": NAMED, "instanceType": "g6.xlarge", "instanceCount": count, **props}
    given.setdefault("instancePlatform", "Linux/UNIX")
    return {"type": CAPACITY_RESERVATION, "name": "made", "props": given}


def test_pool_costs_nothing_to_the_most_expensive_node_times_its_limit() -> None:
    both = types("g6.xlarge", "g6.2xlarge")
    found = pool_cost(pool(both, need(CAPACITY, "on-demand"), ZONE, limits={"nvidia.com/gpu": 3}))
    (nodes,) = [line for line in found.lines if line.kind == "compute"]
    hourly = CATALOG.on_demand("g6.2xlarge", "us-east-1").amount
    assert (nodes.minimum, nodes.expected, nodes.maximum) == (0, 0, 3 * 730 * hourly)
    assert (nodes.site, nodes.owner, nodes.team) == ("use1", "own", "")
    either = pool_cost(pool(both, need(CAPACITY, "spot", "on-demand"), ZONE, limits={"nvidia.com/gpu": 3}))
    assert [each.maximum for each in either.lines if each.kind == "compute"] == [nodes.maximum]
    assert {each.what for each in either.lines if each.kind == "storage"} == {"0 root volumes, gp3 100 GiB"}


def test_limit_of_vcpus_allows_more_of_the_smaller_type() -> None:
    both = types("g6.2xlarge", "g6.xlarge")
    found = pool_cost(pool(both, need(CAPACITY, "on-demand"), ZONE, limits={"cpu": 16}))
    assert "0 to 4 nodes" in next(line.basis for line in found.lines if line.kind == "compute")


def test_nodes_of_a_static_pool_always_run() -> None:
    found = pool_cost(pool(replicas=2))
    assert amounts(found) == (2 * NODE, 2 * NODE, 2 * NODE)
    assert amounts(found, "storage") == (2 * DISK, 2 * DISK, 2 * DISK)


def test_pool_of_spot_nodes_has_the_spot_price() -> None:
    spot = CATALOG.spot("g6.xlarge", "us-east-1")
    assert spot is not None
    found = pool_cost(pool(types("g6.xlarge"), need(CAPACITY, "spot"), ZONE, replicas=1))
    (nodes,) = [line for line in found.lines if line.kind == "compute"]
    assert (nodes.expected, nodes.maximum) == (spot.median * MONTH, spot.high * MONTH)
    assert nodes.bought == "spot"
    either = pool_cost(pool(types("g6.xlarge"), need(CAPACITY, "spot", "on-demand"), ZONE, replicas=1))
    assert [each.bought for each in either.lines if each.kind == "compute"] == ["spot, else on-demand"]


def test_nodes_in_a_reservation_outside_of_the_stack_cost_its_price_at_all_times() -> None:
    found = pool_cost(reserved("default"), of_class=in_reservation({"id": NAMED}))
    assert amounts(found) == (4 * NODE, 4 * NODE, 4 * NODE)
    assert amounts(found, "storage") == (0, 0, 4 * DISK)
    assert {each.bought for each in found.lines if each.kind == "compute"} == {"odcr"}


def test_nodes_in_a_reservation_of_the_stack_are_not_paid_twice() -> None:
    found = pool_cost(reserved("default"), odcr(4), of_class=in_reservation({"id": NAMED}))
    assert amounts(found) == (4 * NODE, 4 * NODE, 4 * NODE)
    assert amounts(found, "storage") == (0, 0, 4 * DISK)
    unnamed = in_reservation({"id": UNKNOWN}) | {"depends": {"spec": ["made"]}}
    assert amounts(pool_cost(reserved("default"), odcr(4, id=None), of_class=unnamed)) == amounts(found)


def test_volumes_of_nodes_in_a_block_exist_while_it_lasts() -> None:
    block = {
        "type": CAPACITY_BLOCK,
        "name": "bought",
        "props": {
            "id": NAMED,
            "instanceType": "p5.48xlarge",
            "instanceCount": 1,
            "startDate": "2031-05-01T11:30:00Z",
            "endDate": "2031-05-03T11:30:00Z",
        },
    }
    wanted = reserved("capacity-block", name="p5.48xlarge", nodes=8)
    found = pool_cost(wanted, block, of_class=in_reservation({"id": NAMED}))
    assert amounts(found, "storage")[2] == pytest.approx(DISK * 48 / MONTH)
    assert len([each for each in found.lines if each.kind == "compute"]) == 1


@pytest.mark.parametrize(
    "terms",
    [
        (),
        ({"id": NAMED}, {"id": NAMED}),
        (UNKNOWN,),
        (NAMED,),
        ({},),
        ({"tags": {"pool": "a"}},),
        ({"id": NAMED, "tags": {"pool": "a"}},),
    ],
)
def test_pool_in_reservations_that_are_not_named_has_no_price(terms: tuple[Any, ...]) -> None:
    found = pool_cost(reserved("default"), of_class=in_reservation(*terms))
    assert "does not name one reservation by its id" in why_unknown(found)


@pytest.mark.parametrize("kinds", [(), ("default", "capacity-block")])
def test_pool_in_a_reservation_that_may_be_a_block_has_no_price(kinds: tuple[str, ...]) -> None:
    found = pool_cost(reserved(*kinds), of_class=in_reservation({"id": NAMED}))
    assert "the reservation may be a Capacity Block" in why_unknown(found)


def test_block_outside_of_the_stack_and_the_fleet_file_has_no_price() -> None:
    found = pool_cost(reserved("capacity-block"), of_class=in_reservation({"id": NAMED}))
    assert "the Capacity Block is not in this stack" in why_unknown(found)


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ([types("g6.xlarge", "h9.huge"), need(CAPACITY, "on-demand"), ZONE], "h9.huge is not in the catalog"),
        ([types("g6.xlarge"), need(CAPACITY, "on-demand")], "no requirement lists its zones"),
        ([need(CAPACITY, "on-demand"), ZONE], "Karpenter chooses its types"),
        ([types(), need(CAPACITY, "on-demand"), ZONE], "Karpenter chooses its types"),
        ([types("g6.xlarge"), ZONE], "no requirement limits karpenter.sh/capacity-type"),
        ([types("g6.xlarge"), need(CAPACITY), ZONE], "no requirement limits karpenter.sh/capacity-type"),
        ([types("g6.xlarge"), need(CAPACITY, "reserved", "on-demand"), ZONE], "start in reservations"),
        (
            [types("g6.xlarge"), {"key": CAPACITY, "operator": "In", "values": UNKNOWN}, ZONE],
            "start in reservations",
        ),
    ],
)
def test_pool_without_bounds_has_no_price(needs: list[dict[str, Any]], reason: str) -> None:
    assert reason in why_unknown(pool_cost(pool(*needs)))


@pytest.mark.parametrize("limits", [{}, {"nodes": 4}, {"nvidia.com/gpu": UNKNOWN}])
def test_pool_whose_limits_do_not_hold_has_no_price(limits: dict[str, Any]) -> None:
    assert "spec.limits has no known limit" in why_unknown(pool_cost(pool(limits=limits)))


def test_pool_without_its_class_has_no_price() -> None:
    assert "its EC2NodeClass is not in this stack" in why_unknown(cost(pool()))


def test_nodes_with_public_addresses_pay_for_them() -> None:
    hour = CATALOG.service_price("public-ipv4-hour", "us-east-1").amount
    found = pool_cost(pool(replicas=2), of_class=node_class("associatePublicIPAddress", True))
    assert amounts(found, "network") == (2 * hour * MONTH,) * 3
    assert not [each for each in pool_cost(pool(replicas=2)).lines if each.kind == "network"]
    unknown = pool_cost(pool(), of_class=node_class("associatePublicIPAddress", UNKNOWN))
    assert "associatePublicIPAddress is not known yet" in why_unknown(unknown)


@pytest.mark.parametrize(("size", "gib"), [("100Gi", 100), ("1Ti", 1024)])
def test_size_of_the_root_volume_is_read_in_gib_and_tib(size: str, gib: int) -> None:
    found = pool_cost(pool(replicas=1), of_class=node_class("blockDeviceMappings.0.ebs.volumeSize", size))
    assert amounts(found, "storage")[0] == DISK * gib / 100


def test_paid_iops_and_throughput_of_the_root_volume_count() -> None:
    plain = amounts(pool_cost(pool(replicas=1)), "storage")
    for key, value in (("iops", 4000), ("throughput", 250)):
        faster = node_class(f"blockDeviceMappings.0.ebs.{key}", value)
        assert amounts(pool_cost(pool(replicas=1), of_class=faster), "storage") > plain, key


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("blockDeviceMappings", None, "the size of the root volume is not declared"),
        ("blockDeviceMappings", ["/dev/xvda"], "blockDeviceMappings[0].ebs is"),
        ("blockDeviceMappings", [{"deviceName": "/dev/xvda"}], "blockDeviceMappings[0].ebs is"),
        ("blockDeviceMappings.0.ebs", UNKNOWN, "blockDeviceMappings[0].ebs is"),
        ("blockDeviceMappings.0.ebs.volumeSize", "100G", "volumeSize is"),
        ("blockDeviceMappings.0.ebs.volumeSize", None, "volumeSize is"),
        ("blockDeviceMappings.0.ebs.volumeType", UNKNOWN, "volumeType is"),
        ("blockDeviceMappings.0.ebs.volumeType", None, "volumeType is"),
    ],
)
def test_volumes_of_unknown_size_or_type_have_no_price(path: str, value: Any, reason: str) -> None:
    assert reason in why_unknown(pool_cost(pool(), of_class=node_class(path, value)))
