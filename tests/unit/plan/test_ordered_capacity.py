"""Orders in the plan: the zones that they try, and what they are expected to draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.plan import build_plan
from gpufleet.plan.capacity_models import SpotPlan
from gpufleet.plan.models import CloudSitePlan, NodeGroupPlan
from tests.unit.plan.fleets import CATALOG, cloud_site, group, odcr, on_demand, spec, spot

WEST = {
    "site": "usw2",
    "region": "us-west-2",
    "zones": ["us-west-2a"],
    "network": {"cidr": "10.50.0.0/16"},
}
HELD = {"id": "cr-0123456789abcdef0", "zone": "us-east-1b"}


def groups_of(sites: Sequence[CloudSitePlan]) -> Iterator[NodeGroupPlan]:
    return (group for site in sites for group in site.node_groups)


def test_nodes_are_expected_in_the_order_of_the_groups() -> None:
    site = cloud_site(
        group("reserved", ["p5.48xlarge"], odcr(2)),
        group("spot", ["p5.48xlarge"], spot(0, 3)),
        group("rest", ["p5.48xlarge"], on_demand(0, 8)),
        ordered_capacity=[
            {"name": "train", "nodes": 6, "at_least": 2, "groups": ["reserved", "spot", "rest"]}
        ],
    )
    (planned,) = build_plan(spec(cloud=[site]), CATALOG).cloud
    (order,) = planned.ordered_capacity
    assert order.places == (("reserved", "spot", "rest"),)
    assert order.expected == {"reserved": 2, "spot": 3, "rest": 1}
    assert [
        (each.capacity.min, each.capacity.desired, each.capacity.max) for each in planned.node_groups
    ] == [
        (2, 2, 2),
        (0, 3, 3),
        (0, 1, 8),
    ]


def test_groups_with_efa_are_tried_zone_by_zone() -> None:
    efa = {"network": "efa"}
    site = cloud_site(
        group("spot-a", ["p5.48xlarge"], spot(0, 4), zones=["us-east-1a"], **efa),
        group("held-b", ["p5.48xlarge"], odcr(2, **HELD), **efa),
        group("rest-a", ["p5.48xlarge"], on_demand(0, 4), zones=["us-east-1a"], **efa),
        ordered_capacity=[{"name": "train", "nodes": 5, "groups": ["spot-a", "held-b", "rest-a"]}],
        zones=["us-east-1a", "us-east-1b"],
    )
    (planned,) = build_plan(spec(cloud=[site]), CATALOG).cloud
    (order,) = planned.ordered_capacity
    assert (order.nodes, order.at_least) == (5, 5)
    assert order.places == (("spot-a", "rest-a"), ("held-b",))
    assert order.expected == {"spot-a": 4, "rest-a": 1, "held-b": 0}
    assert isinstance(planned.node_groups[0].capacity, SpotPlan)


def test_nodes_come_from_one_site_and_each_site_knows_its_drawn_groups() -> None:
    east = cloud_site(
        group("held", ["g6.xlarge"], odcr(2)),
        group("own", ["g6.xlarge"], on_demand(0, 8)),
        ordered_capacity=[{"name": "train", "nodes": 4, "groups": ["usw2/spot", "held", "usw2/rest"]}],
    )
    west = cloud_site(
        group("spot", ["g6.xlarge"], spot(0, 3)),
        group("rest", ["g6.xlarge"], on_demand(0, 8)),
        group("own", ["g6.xlarge"], on_demand(0, 8)),
        **WEST,
    )
    planned = build_plan(spec(cloud=[east, west]), CATALOG).cloud
    (order,) = planned[0].ordered_capacity
    assert order.places == (("usw2/spot", "usw2/rest"), ("held",))
    assert order.expected == {"usw2/spot": 3, "usw2/rest": 1, "held": 0}
    assert planned[1].ordered_capacity == ()
    assert {(each.site, each.name): (each.ordered, each.capacity.desired) for each in groups_of(planned)} == {
        ("use1", "held"): (True, 2),
        ("use1", "own"): (False, 0),
        ("usw2", "spot"): (True, 3),
        ("usw2", "rest"): (True, 1),
        ("usw2", "own"): (False, 0),
    }


def test_groups_with_efa_are_tried_by_site_and_zone() -> None:
    efa = {"network": "efa"}
    east = cloud_site(
        group("a", ["p5.48xlarge"], spot(0, 4), zones=["us-east-1a"], **efa),
        group("b", ["p5.48xlarge"], spot(0, 4), zones=["us-east-1b"], **efa),
        ordered_capacity=[{"name": "train", "nodes": 4, "groups": ["a", "usw2/a", "b"]}],
        zones=["us-east-1a", "us-east-1b"],
    )
    west = cloud_site(group("a", ["p5.48xlarge"], spot(0, 4), zones=["us-west-2a"], **efa), **WEST)
    (order,) = build_plan(spec(cloud=[east, west]), CATALOG).cloud[0].ordered_capacity
    assert order.places == (("a",), ("usw2/a",), ("b",))


def test_groups_stay_in_a_zone_with_a_placement_group_and_may_be_spread_without() -> None:
    def places(**changes: str) -> tuple[tuple[str, ...], ...]:
        site = cloud_site(
            group("a", ["p5.48xlarge"], spot(0, 4), zones=["us-east-1a"], **changes),
            group("b", ["p5.48xlarge"], spot(0, 4), zones=["us-east-1b"], **changes),
            ordered_capacity=[{"name": "train", "nodes": 4, "groups": ["a", "gone", "b"]}],
            zones=["us-east-1a", "us-east-1b"],
        )
        (order,) = build_plan(spec(cloud=[site]), CATALOG).cloud[0].ordered_capacity
        return order.places

    # A check refuses the group that does not exist.
    assert places() == (("a", "b"),)
    assert places(placement="cluster") == (("a",), ("b",))
