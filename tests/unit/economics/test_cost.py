"""The cost of a fleet in groups, and its difference from another one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.economics.cost import GROUPINGS, Grouping, compare_costs, group_by_tag, group_cost, number_of
from gpufleet.economics.cost_json import changes_to_json, groups_to_json
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing import FleetCost, price_plan
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, rack_site, spec


def fleet(nodes: int = 2, instance: str = "p5.48xlarge", **more: Any) -> FleetPlan:
    groups = [
        group("train", instance, on_demand(nodes, nodes)),
        group("serve", "g6e.xlarge", on_demand(1, 4)),
    ]
    return build_plan(
        spec(cloud=[cloud_site(node_groups=groups, scheduler="slurm", **more)], onprem=[rack_site()]), CATALOG
    )


def cost(plan: FleetPlan) -> FleetCost:
    return price_plan(plan, CATALOG)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_groups_add_up_to_the_total(grouping: Grouping) -> None:
    found = cost(fleet())
    groups = group_cost(found, grouping)
    assert len(groups) > 1 or grouping == "team"
    for part in ("minimum", "expected", "maximum"):
        assert sum(getattr(each, part) for each in groups.values()) == getattr(found.total, part)


def test_values_of_a_tag_and_the_rest_add_up_to_the_total() -> None:
    plan = fleet()
    found = cost(plan)
    groups = group_by_tag(found, plan, "gpufleet:node-group")
    assert {"train", "serve", ""} <= set(groups)
    assert sum(each.expected for each in groups.values()) == found.total.expected


def test_equal_fleets_have_no_difference() -> None:
    assert compare_costs(cost(fleet()), cost(fleet())) == ()


def test_more_nodes_are_a_change_of_their_lines() -> None:
    before, after = cost(fleet(2)), cost(fleet(3))
    changes = compare_costs(before, after)
    nodes = changes[0]
    assert nodes.what == "p5.48xlarge, on-demand"
    assert nodes.before is not None
    assert nodes.after is not None
    assert (number_of(nodes.before), number_of(nodes.after)) == ("2", "3")
    assert nodes.difference == Decimal("55.04") * 730
    assert sum(each.difference or 0 for each in changes) == after.total.expected - before.total.expected
    assert {each.owner for each in changes} == {"train"}


def test_another_type_is_one_line_less_and_one_more() -> None:
    changes = compare_costs(cost(fleet()), cost(fleet(instance="p5en.48xlarge")))
    assert [(each.what, each.before is None, each.after is None) for each in changes] == [
        ("p5en.48xlarge, on-demand", True, False),
        ("p5.48xlarge, on-demand", False, True),
    ]


def test_unknown_amounts_lead_and_have_no_difference() -> None:
    known, unknown = cost(fleet()), cost(fleet(instance="p5e.48xlarge"))
    first, *_ = compare_costs(known, unknown)
    assert first.difference is None
    document = groups_to_json(unknown, "group", group_cost(unknown, "group"))
    assert document["total"]["complete"] is False
    assert [item["owner"] for item in document["unknown"]] == ["train"]
    assert changes_to_json(known, unknown, (first,))["changes"][0]["difference"] is None


def test_json_has_hours_and_months() -> None:
    found = cost(fleet())
    total = groups_to_json(found, "site", group_cost(found, "site"))["total"]
    assert total["hourly"] == pytest.approx(total["monthly"] / 730, abs=0.01)
    assert total["low"] <= total["monthly"] <= total["high"]
