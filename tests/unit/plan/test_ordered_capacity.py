"""Orders in the plan: the zones that they try, and what they are expected to draw."""

from __future__ import annotations

from gpufleet.plan import build_plan
from gpufleet.plan.capacity_models import SpotPlan
from tests.unit.plan.fleets import CATALOG, cloud_site, group, odcr, on_demand, spec, spot

HELD = {"id": "cr-0123456789abcdef0", "zone": "us-east-1b"}


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
