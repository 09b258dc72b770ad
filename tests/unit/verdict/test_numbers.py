"""Cost and racks, before and after."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from gpufleet.catalog import load_catalog
from gpufleet.plan import build_plan
from gpufleet.pricing.models import CostLine, FleetCost
from gpufleet.spec.load import LoadedFleet
from gpufleet.spec.models import FleetSpec
from gpufleet.verdict.costs import compare_costs
from gpufleet.verdict.racks import rack_differences

TODAY = dt.date(2026, 11, 21)


def _line(name: str, expected: int | None, **changes: Any) -> CostLine:
    amount = None if expected is None else Decimal(expected)
    fields: dict[str, Any] = {
        "urn": f"urn:{name}",
        "type": "aws:ec2/instance:Instance",
        "name": name,
        "what": name,
        "kind": "compute",
        "minimum": amount,
        "expected": amount,
        "maximum": None if amount is None else amount * 2,
    }
    return CostLine(**{**fields, **changes})


def test_lines_are_compared_by_resource_and_totals_summed() -> None:
    before = FleetCost((_line("a", 10), _line("gone", 7), _line("same", 1)))
    after = FleetCost((_line("a", 15), _line("new", 3), _line("same", 1)))
    costs = compare_costs(before, after, Decimal(100), TODAY)
    found = {line.what: (line.before, line.after, line.changed) for line in costs.lines}
    assert found == {
        "a": (Decimal(10), Decimal(15), True),
        "new": (None, Decimal(3), True),
        "same": (Decimal(1), Decimal(1), False),
        "gone": (Decimal(7), None, True),
    }
    assert (costs.before, costs.after, costs.at_max_before, costs.at_max) == (18, 19, 36, 38)
    assert costs.increase == 1


def test_raised_maximum_is_a_change_with_the_same_expected_cost() -> None:
    raised = _line("a", 10, maximum=Decimal(99))
    costs = compare_costs(FleetCost((_line("a", 10),)), FleetCost((raised,)), None, TODAY)
    assert costs.increase == 0
    assert [line.changed for line in costs.lines] == [True]


def test_several_lines_of_one_resource_are_kept_apart() -> None:
    before = FleetCost((_line("a", 10), _line("a", 20)))
    costs = compare_costs(before, before, None, TODAY)
    assert [line.after for line in costs.lines] == [10, 20]
    assert not any(line.changed for line in costs.lines)


def test_unknown_price_is_named_and_never_zero() -> None:
    unknown = _line("b", None, reason="no price of it was read")
    costs = compare_costs(FleetCost(), FleetCost((_line("a", 10), unknown)), None, TODAY)
    assert [(line.what, line.reason, line.after) for line in costs.unknown] == [
        ("b", "no price of it was read", None)
    ]
    silent = compare_costs(None, FleetCost((_line("b", None),)), None, TODAY)
    assert [line.reason for line in silent.unknown] == ["no price is known"]


def test_nothing_has_changed_without_a_base() -> None:
    costs = compare_costs(None, FleetCost((_line("a", 10),)), None, TODAY)
    assert costs.before is None
    assert costs.increase is None
    assert not any(line.changed for line in costs.lines)


def test_age_of_the_oldest_price_counts_to_the_day_of_the_verdict() -> None:
    after = FleetCost((_line("a", 1, date="2026-11-01"), _line("b", 1, date="2026-10-12"), _line("c", 1)))
    costs = compare_costs(None, after, None, TODAY)
    assert (costs.oldest_price, costs.oldest_price_days) == (dt.date(2026, 10, 12), 40)
    assert compare_costs(None, FleetCost((_line("c", 1),)), None, TODAY).oldest_price_days is None


def _with_nodes(spec: FleetSpec, **changes: Any) -> FleetSpec:
    site = spec.onprem[0].model_copy(update=changes)
    return spec.model_copy(update={"onprem": (site,)})


def test_racks_are_counted_by_their_power(loaded: LoadedFleet) -> None:
    catalog = load_catalog()
    spec = loaded.spec
    (difference,) = rack_differences(None, (spec, build_plan(spec, catalog)), catalog)
    system = catalog.system("dgx-h100")
    assert difference.before is None
    after = difference.after
    assert after is not None
    assert system.power_kw_max is not None
    in_one = int(Decimal(40) // system.power_kw_max)
    assert (after.nodes, after.gpus, after.hosts) == (9, 72, 10)
    assert after.power_kw == system.power_kw_max * 9
    assert after.facility_kw == system.power_kw_max * 9 * Decimal("1.25")
    assert after.racks == -(-9 // in_one)
    assert difference.changed


def test_hall_of_unknown_power_has_unknown_racks(loaded: LoadedFleet) -> None:
    catalog = load_catalog()
    spec = _with_nodes(loaded.spec, power=None)
    (difference,) = rack_differences(None, (spec, build_plan(spec, catalog)), catalog)
    assert difference.after is not None
    assert difference.after.racks is None
    assert difference.after.facility_kw is None
    assert difference.after.power_kw is not None


def test_equal_racks_are_unchanged_and_a_removed_site_is_reported(loaded: LoadedFleet) -> None:
    catalog = load_catalog()
    side = (loaded.spec, build_plan(loaded.spec, catalog))
    assert [each.changed for each in rack_differences(side, side, catalog)] == [False]
    empty = loaded.spec.model_copy(update={"onprem": ()})
    (difference,) = rack_differences(side, (empty, build_plan(empty, catalog)), catalog)
    assert difference.after is None
    assert difference.changed
