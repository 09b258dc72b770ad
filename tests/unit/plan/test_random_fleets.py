"""Properties that hold for any fleet: sums, order of sizes, and a plan that is a function of its spec."""

from __future__ import annotations

import json

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.json import model_to_json
from gpufleet.pricing import Amount
from gpufleet.pricing.json import by_tag
from gpufleet.pricing.models import sums_by
from gpufleet.spec.models import FleetSpec
from tests.unit.plan.fleets import CATALOG, cost_of
from tests.unit.plan.random_fleets import random_fleet

SEEDS = range(40)


def _sum(amounts: dict[str, Amount]) -> tuple[object, object, object]:
    return (
        sum(each.minimum for each in amounts.values()),
        sum(each.expected for each in amounts.values()),
        sum(each.maximum for each in amounts.values()),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_by_site_owner_and_common_tag_equal_the_total(seed: int) -> None:
    plan = build_plan(random_fleet(seed), CATALOG)
    cost = cost_of(plan)
    tags, whole = by_tag(cost, plan), _sum({"": cost.total})
    parts = sums_by(cost.lines, lambda line: f"{line.type} {line.name} {line.what}")
    assert _sum(parts) == whole
    assert _sum(cost.by("site")) == _sum(cost.by("owner")) == whole
    assert _sum(tags.get("project", {})) == whole
    account = cost.by("site").get("", Amount())
    assert _sum(tags.get("gpufleet:site", {}) | {"": account}) == whole


@pytest.mark.parametrize("seed", SEEDS)
def test_low_expected_and_high_are_ordered_and_not_negative(seed: int) -> None:
    for item in cost_of(build_plan(random_fleet(seed), CATALOG)).lines:
        if item.minimum is not None and item.expected is not None and item.maximum is not None:
            assert 0 <= item.minimum <= item.maximum, item
            assert 0 <= item.expected <= item.maximum, item
        else:
            assert item.reason, item


@pytest.mark.parametrize("seed", SEEDS)
def test_larger_maximum_never_costs_less(seed: int) -> None:
    data = random_fleet(seed).model_dump()
    for site in data["cloud"]:
        site["ordered_capacity"] = []  # which would draw other nodes from larger groups
    fleet = FleetSpec.model_validate(data)
    for site in data["cloud"]:
        for each in site["node_groups"]:
            for kind in ("on_demand", "spot"):
                # A group of no nodes has no cost, and what a fleet file assumes of it counts from the first.
                if each["capacity"][kind] is not None and each["capacity"][kind]["max"]:
                    each["capacity"][kind]["max"] += 3
    before, after = (
        cost_of(build_plan(each, CATALOG)).total for each in (fleet, FleetSpec.model_validate(data))
    )
    assert (before.minimum, before.expected) == (after.minimum, after.expected)
    assert after.maximum >= before.maximum


@pytest.mark.parametrize("seed", SEEDS)
def test_plan_depends_only_on_its_spec(seed: int) -> None:
    one, other = build_plan(random_fleet(seed), CATALOG), build_plan(random_fleet(seed), CATALOG)
    assert one == other
    assert json.dumps(model_to_json(one)) == json.dumps(model_to_json(other))


@pytest.mark.parametrize("seed", SEEDS)
def test_capacity_block_never_has_a_placement_group_in_any_fleet(seed: int) -> None:
    for each in build_plan(random_fleet(seed), CATALOG).node_groups:
        assert not (each.capacity.kind == "capacity-block" and each.placement_group)
        assert each.capacity.min <= each.capacity.desired <= each.capacity.max
        assert each.network_interfaces[0].interface_type == "interface"
