"""The page of `gpufleet cost`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from gpufleet.economics.cost import LineChange
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing.models import Amount, FleetCost
from gpufleet.report.cost_text import unknown_lines
from gpufleet.report.economics_cost import changes_table, groups_table, lines_table
from gpufleet.report.economics_page import PageSection, economics_page, ranges_section, table_section
from gpufleet.report.money import money, money_range


def cost_page(
    plan: FleetPlan,
    cost: FleetCost,
    by: str,
    groups: Mapping[str, Amount],
    changes: Sequence[LineChange],
    compared: str | None,
    today: dt.date,
) -> str:
    """Return the groups, every line with its calculation and the date of its price, and the difference from
    another fleet if there is one."""
    facts = [
        ("A month of 730 hours", money_range(cost.total)),
        ("Budget", f"{money(plan.budget.monthly)} a month"),
        ("Paid once", money(cost.upfront) if cost.upfront else "nothing"),
        ("Without a known price", f"{len(cost.unknown)} of {len(cost.lines)} lines"),
    ]
    largest = sorted(groups.items(), key=lambda item: -item[1].expected)[:20]
    sections = [
        table_section(f"Cost by {by}", groups_table(cost, by, groups)),
        ranges_section(
            f"Cost by {by} in a plot",
            "USD a month, expected, at minimum and at maximum size",
            (
                (name or "without the tag", float(each.minimum), float(each.expected), float(each.maximum))
                for name, each in largest
            ),
        ),
    ]
    if compared is not None:
        sections.append(
            table_section(f"Compared with {compared}", changes_table(changes))
            if changes
            else PageSection(f"Compared with {compared}", "The cost is the same.")
        )
    sections.append(table_section("Every line", lines_table(cost, today)))
    if cost.unknown:
        sections.append(PageSection("Unknown", lines=tuple(unknown_lines(cost))))
    if cost.not_counted:
        sections.append(PageSection("Not counted", lines=tuple(cost.not_counted)))
    sources = sorted({f"{line.source}, {line.date}" for line in cost.lines if line.source and line.date})
    return economics_page(
        f"{plan.fleet}/{plan.environment}: what it costs",
        "gpufleet cost",
        facts,
        [each for each in sections if each is not None],
        sources=sources,
    )
