"""One change adds no more to the monthly cost than the fleet file allows."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.budget._caps import (
    FORECASTING,
    SizeSettings,
    example_fleet,
    example_nodes,
    fleet_of,
    no_fleet,
    sum_text,
    usd,
)
from gpufleet.policy.change import StackChange
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Violation, change_rule

FIELD = "budget.max_increase"


@change_rule(
    "budget-increase",
    group="budget",
    title="One change adds no more than allowed",
    why="A large increase needs its own approval, even if the budget has room for it.",
    fix="Split the change, request less, or raise `budget.max_increase`.",
    severity="medium",
    framework=FORECASTING,
    fleet_field=FIELD,
    settings=SizeSettings,
    passes=Example(example_nodes(2), before=example_nodes(1), fleet=example_fleet(max_increase="1000 USD")),
    fails=Example(example_nodes(4), before=example_nodes(1), fleet=example_fleet(max_increase="1000 USD")),
)
def budget_increase(change: StackChange, context: RuleContext[SizeSettings]) -> Iterator[Violation]:
    """Compare the costs before and after. A line without a price on one side fails."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    cap = spec.budget.max_increase
    # A new environment, or one whose first creation was interrupted, has no cost to add to.
    if cap is None or change.unfinished or not len(change.before):
        return
    size = context.settings.size
    before, _ = sum_text(change.cost_before.total, size)
    after, amount = sum_text(change.cost_after.total, size)
    at = " at maximum size" if size == "maximum" else ""
    if after - before > cap.amount:
        yield Violation(
            f"the change adds {usd(after - before)} a month{at} ({usd(before)} before, {amount} after), and"
            f" {FIELD} is {cap}",
            f"split the change, request less, or raise {FIELD}",
            fleet_field=FIELD,
        )
    had = {(line.urn, line.what) for line in change.cost_before.unknown}
    for line in change.cost_after.unknown:
        if (line.urn, line.what) not in had:
            yield Violation(
                f"what {line.name} ({line.what}) adds to a month is not known ({line.reason}), and {FIELD}"
                f" is {cap}",
                "write an amount for it into policies.budget-unknown-cost.settings.assume",
                urn=line.urn,
                fleet_field=FIELD,
                unknown=True,
            )
