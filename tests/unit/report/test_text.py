"""Money, cost, changes and results as people read them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from rich.text import Text

from gpufleet.engine.api import SECRET, Changes, Op, ResourceEvent, RunResult, Verb
from gpufleet.plan.models import FleetPlan
from gpufleet.plan.ordered_capacity import OrderPlan
from gpufleet.pricing.models import Amount, CostLine, FleetCost, grouped
from gpufleet.report.changes_text import (
    describe,
    format_changes,
    names_for_urns,
    print_site_changes,
    short_type,
)
from gpufleet.report.cost_text import budget_line, origin, print_budget, print_cost, site_cost
from gpufleet.report.money import money, money_range
from gpufleet.report.overview_text import print_overview
from gpufleet.report.plan_text import order_line, print_plan, print_summary
from gpufleet.report.run_text import next_steps, print_outputs, summary_line
from gpufleet.report.sites import SiteChanges

Printed = Callable[..., list[str]]
HIDDEN = "[secret; `gpufleet outputs --show-secrets` prints it]"
TODAY = dt.date(2026, 11, 21)


def event(name: str, op: Op = Op.CREATE, kind: str = "aws:ec2/vpc:Vpc", **fields: Any) -> ResourceEvent:
    return ResourceEvent(f"urn:pulumi:s::p::{kind}::{name}", kind, name, op, "done", **fields)


def result(verb: Verb, ok: bool = True, **counts: int) -> RunResult:
    return RunResult("embedded", verb, ok, Changes(**counts), 1.0)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (None, "unknown"),
        (Decimal(0), "0 USD"),
        (Decimal("0.125"), "0.12 USD"),
        (Decimal("99.99"), "99.99 USD"),
        (Decimal("12345.5"), "12,346 USD"),
        (Decimal("-3"), "-3.00 USD"),
    ],
)
def test_money_is_rounded_for_display_and_unknown_is_never_zero(amount: Decimal | None, shown: str) -> None:
    assert money(amount) == shown


def _amount(low: int, expected: int, high: int) -> Amount:
    return Amount(Decimal(low), Decimal(expected), Decimal(high))


def _cost(low: int, expected: int, high: int) -> FleetCost:
    amounts = Decimal(low), Decimal(expected), Decimal(high)
    return FleetCost((CostLine("", "", "n", "nodes", "compute", *amounts, site="use1", owner="a"),))


UNKNOWN = CostLine("", "", "n", "volumes", "storage", None, None, None, site="use1", owner="b", reason="why")


def test_range_is_shown_only_if_low_and_high_differ() -> None:
    assert money_range(_amount(100, 200, 300)) == "200 USD (100 to 300)"
    assert money_range(_amount(200, 200, 200)) == "200 USD"
    assert money_range(Amount(known=False, complete=False)) == "unknown"
    assert money_range(_amount(0, 200, 300), "") == "200 (0 to 300)"


def test_budget_line_shows_the_used_share() -> None:
    def line(low: int, expected: int, high: int) -> str:
        return Text.from_markup(budget_line(_cost(low, expected, high), Decimal(1000))).plain

    assert line(500, 500, 500) == "  cost: 500 USD a month of a 1,000 USD budget (50%)"
    assert line(500, 500, 1000).endswith("(50%)")
    assert line(500, 500, 2000).endswith("(50%); over it at maximum size")
    assert line(1000, 1000, 1000).endswith("(100%)")
    assert line(2000, 2500, 3000).endswith("(250%); over it by 1,500 USD")


def test_cost_with_unknown_parts_is_a_lower_bound(plan: FleetPlan, text: Printed) -> None:
    cost = replace(_cost(1, 2, 3), lines=(*_cost(1, 2, 3).lines, UNKNOWN), not_counted=("logs", "traffic"))
    lines = text(print_budget, cost, plan)
    assert lines[0].startswith("  cost: at least 2.00 USD")
    assert lines[1] == "  unknown cost: use1/b: volumes (why)"
    assert "not counted: 2 things" in lines[-1]


def test_unknown_cost_is_not_zero() -> None:
    line = budget_line(FleetCost((UNKNOWN,)), Decimal(1000))
    assert "unknown" in line
    assert "cost: 0" not in line


def test_budget_of_zero_causes_no_division_by_zero() -> None:
    assert "%" not in budget_line(_cost(1, 2, 3), Decimal(0))


def test_origin_of_a_price_is_the_fleet_file_or_a_date_with_its_age() -> None:
    (line,) = _cost(1, 2, 3).lines
    assert origin(replace(line, assumed=True), TODAY).plain == "fleet file"
    assert origin(replace(line, kind="power", date=None), TODAY).plain == "fleet file"
    assert origin(replace(line, kind="ownership", date=None), TODAY).plain == "fleet file"
    assert origin(replace(line, date=None), TODAY).plain == "undated"
    assert origin(replace(line, date="2026-11-11"), TODAY).plain == "2026-11-11 (10 d ago)"
    assert origin(replace(line, date="2026-11-21"), TODAY).plain == "2026-11-21 (today)"
    assert origin(replace(line, date="2026-11-11"), TODAY).style == "dim"
    assert origin(replace(line, date="2024-11-11"), TODAY).style == "yellow"


def test_all_cost_lines_and_uncounted_items_are_listed(
    plan: FleetPlan, cost: FleetCost, text: Printed
) -> None:
    lines = text(print_cost, cost, plan, today=TODAY)
    for item in grouped(cost.lines):
        assert any(item.what in line and item.owner in line for line in lines), item.what
    for words in cost.not_counted:
        assert f"    {words}" in lines


def test_site_without_a_price_is_unknown_and_one_without_cost_is_not_priced() -> None:
    cost = FleetCost((*_cost(1, 2, 3).lines, UNKNOWN, replace(UNKNOWN, site="usw2")))
    assert site_cost(cost, "use1", "USD").startswith("at least ")
    assert site_cost(cost, "nowhere", "USD") == "not priced"
    assert site_cost(cost, "usw2", "USD") == "unknown"


def test_narrow_screen_wraps_names_and_never_truncates_them(
    plan: FleetPlan, cost: FleetCost, text: Printed
) -> None:
    lines = text(print_plan, plan, cost, today=TODAY, width=60)
    assert not any("…" in line for line in lines)
    assert any("control-plane" in line for line in lines)
    # The table of storage does not fit: each system has its own list.
    assert any(line.split()[:3] == ["kind", "FSx", "Lustre"] for line in lines)


def test_plan_shows_the_desired_size_of_a_group_that_scales(
    plan: FleetPlan, cost: FleetCost, text: Printed
) -> None:
    lines = text(print_plan, plan, cost, today=TODAY)
    serve = next(line for line in lines if line.startswith(" serve"))
    assert "1 (1-2)" in serve
    pretrain = next(line for line in lines if line.startswith(" pretrain"))
    assert "capacity block" in pretrain
    assert "32 EFA + 1 ENA" in pretrain


def test_summary_has_a_line_for_each_site(plan: FleetPlan, cost: FleetCost, text: Printed) -> None:
    lines = text(print_summary, plan, cost)
    assert [line.split()[0] for line in lines[:3]] == ["use1", "usw2", "lab"]
    assert lines[2] == "  lab (racks, slurm): 2 gpu hosts, 1 controller host, 1 login host, 16 H100"


def test_summary_lists_unknown_prices_on_one_line(plan: FleetPlan, text: Printed) -> None:
    cost = FleetCost((UNKNOWN, replace(UNKNOWN, what="nodes"), replace(UNKNOWN, site="", owner="")))
    unknown = [line for line in text(print_summary, plan, cost) if "unknown cost" in line]
    assert unknown == ["  unknown cost: use1/b, (account)"]


def test_type_is_shortened_as_in_pulumi() -> None:
    assert short_type("aws:ec2/vpc:Vpc") == "aws:ec2:Vpc"
    assert short_type("gpufleet:network:Network") == "gpufleet:network:Network"
    assert short_type("pulumi:providers:aws") == "pulumi:providers:aws"


def test_urns_in_messages_become_names() -> None:
    message = "because urn:pulumi:dev::p::a:b:C$d:e/f:G::my-name failed (urn:pulumi:dev::p::x:y:Z::w)"
    assert names_for_urns(message) == "because my-name failed (w)"


def test_long_list_of_differing_properties_is_truncated() -> None:
    keys = tuple(f"k{number}" for number in range(9))
    assert describe(event("a", Op.UPDATE, diff=keys)).plain.endswith("[k0, k1, k2, k3, k4, k5, ...]")
    assert "k0" not in describe(event("a", Op.CREATE, diff=keys)).plain


def test_change_text_leaves_out_zero_counts() -> None:
    assert format_changes(Changes(create=2, delete=1, same=9), foreseen=True) == "2 to create, 1 to delete"
    assert format_changes(Changes(update=1, replace=3), foreseen=False) == "1 updated, 3 replaced"
    assert format_changes(Changes(same=4), foreseen=True) == ""


def test_changes_of_a_site_are_a_table_and_a_tree(text: Printed) -> None:
    component = event("net", kind="gpufleet:network:Network")
    group = SiteChanges(
        "use1",
        Changes(create=3, delete=1, same=7),
        (
            component,
            event("old", Op.DELETE, "aws:ec2/subnet:Subnet"),
            event("vpc", parent=component.urn),
            event("new", Op.CREATE, "aws:ec2/subnet:Subnet", parent=component.urn),
        ),
    )
    lines = text(print_site_changes, group, "use1 (us-east-1, slurm)")
    assert lines[:2] == ["", "use1 (us-east-1, slurm)  3 to create, 1 to delete"]
    assert lines[2].split() == ["type", "create", "delete"]
    assert [line.split() for line in lines[4:7]] == [
        ["aws:ec2:Subnet", "1", "1"],
        ["aws:ec2:Vpc", "1"],
        ["gpufleet:network:Network", "1"],
    ]
    assert lines[7:] == [
        " + gpufleet:network:Network  net",
        " +   aws:ec2:Vpc  vpc",
        " +   aws:ec2:Subnet  new",
        " - aws:ec2:Subnet  old",
    ]


def test_short_changes_of_a_site_count_creations_and_list_the_others(text: Printed) -> None:
    subnets = [event(f"new-{number}", Op.CREATE, "aws:ec2/subnet:Subnet") for number in range(30)]
    kinds = [event(f"one-{number}", Op.CREATE, f"aws:x/kind{number}:Kind{number}") for number in range(11)]
    gone = [event(f"old-{number}", Op.DELETE, "aws:ec2/subnet:Subnet") for number in range(25)]
    group = SiteChanges("use1", Changes(create=41, delete=25), (*subnets, *kinds, *gone))
    lines = text(print_site_changes, group, "use1 (us-east-1, slurm)", listed=False)
    assert lines[:2] == ["", "use1 (us-east-1, slurm)  41 to create, 25 to delete"]
    assert lines[2].startswith(" + 30 aws:ec2:Subnet, 1 aws:x:Kind0, ")
    assert lines[2].endswith(", 1 aws:x:Kind4, 6 of 6 more types")
    assert lines[3:] == [f" - aws:ec2:Subnet  old-{number}" for number in range(20)] + [
        "   and 5 more changes"
    ]


def test_overview_has_a_row_for_each_site_including_racks(
    plan: FleetPlan, cost: FleetCost, text: Printed
) -> None:
    groups = (
        SiteChanges("use1", Changes(create=12, same=3), ()),
        SiteChanges("usw2", Changes(), ()),
        SiteChanges(None, Changes(create=1), ()),
    )
    lines = text(print_overview, plan, cost, groups)
    assert lines[1].split() == ["site", "where", "create", "unchanged", "USD", "a", "month"]
    rows = [line.split()[0] for line in lines[3:] if line[1] != " "]
    assert rows == ["use1", "usw2", "(account)", "lab"]
    assert "12" in lines[3]
    assert "update" not in lines[1]


def test_summary_line_counts_failures() -> None:
    failures = (event("a"), replace(event("b"), status="failed"), replace(event("c"), status="skipped"))
    ended = replace(result("up", ok=False, create=1, same=2), failures=failures)
    assert summary_line(ended).plain == "up: 1 created, 2 unchanged, 1 failed, 1 skipped in 1.0 s"


def test_outputs_show_nested_values_and_no_secret(text: Printed) -> None:
    lines = text(
        print_outputs,
        {
            "b": {"z": 1, "a": "[bold]x[/bold]"},
            "a": [],
            "c": {"inner": {"deep": SECRET}},
            "d": {f"key-{number}": "v" * 30 for number in range(6)},
            "e": [{"name": "n1"}, {"name": "n2"}],
        },
    )
    assert lines[:4] == [
        "  a: none",
        "  b: a=[bold]x[/bold], z=1",
        "  c:",
        "    inner: deep=" + HIDDEN,
    ]
    assert lines[4] == "  d:"
    assert lines[5] == f"    key-0: {'v' * 30}"
    assert lines[-1] == "  e: name=n1, name=n2"


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (result("preview", create=1), "next: `gpufleet up`"),
        (result("preview"), "nothing to do"),
        (result("preview", ok=False), "nothing was changed"),
        (result("up", ok=False), "nothing is lost"),
        (result("up", create=1), "`gpufleet destroy`"),
        (result("refresh", update=1), "`gpufleet preview`"),
    ],
)
def test_next_steps_follow_from_the_result(ended: RunResult, words: str) -> None:
    assert words in "\n".join(next_steps(ended))


def test_destroy_and_refresh_without_drift_have_no_next_steps() -> None:
    assert next_steps(result("destroy", delete=1)) == []
    assert next_steps(result("refresh")) == []


def test_order_says_where_it_draws_next() -> None:
    places = (("held-a", "spot-a"), ("spot-b",), ("usw2/spot",), ("usw2/rest",))
    order = OrderPlan("train", 8, 4, places, {})
    assert order_line(order) == (
        "train draws 8 nodes (at least 4) from held-a, then spot-a or, in another zone, spot-b or, in another"
        " site, usw2/spot or, in another zone, usw2/rest"
    )
    assert order_line(OrderPlan("all", 2, 2, (("a",),), {})) == "all draws 2 nodes, all or none, from a"
