"""One change adds no more to a month than the fleet file allows."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.budget._caps import (
    FORECASTING,
    SizeSettings,
    about,
    example_fleet,
    example_nodes,
    fleet_of,
    no_fleet,
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
    why="A large step deserves a decision of its own, even where the budget has room for it.",
    fix="Split the change, ask for less, or raise `budget.max_increase`.",
    severity="medium",
    framework=FORECASTING,
    fleet_field=FIELD,
    settings=SizeSettings,
    passes=Example(example_nodes(2), before=example_nodes(1), fleet=example_fleet(max_increase="1000 USD")),
    fails=Example(example_nodes(4), before=example_nodes(1), fleet=example_fleet(max_increase="1000 USD")),
)
def budget_increase(change: StackChange, context: RuleContext[SizeSettings]) -> Iterator[Violation]:
    """The cost after less the cost before; what has no price on one side fails closed."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    cap = spec.budget.max_increase
    # An environment that is new, or whose first creation was interrupted, has nothing to add to: its whole
    # budget was decided with it.
    if cap is None or change.unfinished or not len(change.before):
        return
    size = context.settings.size
    before, _ = about(change.cost_before.total, size)
    after, said = about(change.cost_after.total, size)
    at = " at maximum size" if size == "maximum" else ""
    if after - before > cap.amount:
        yield Violation(
            f"the change adds {usd(after - before)} a month{at} ({usd(before)} before, {said} after), and"
            f" {FIELD} is {cap}",
            f"split the change, ask for less, or raise {FIELD}",
            fleet_field=FIELD,
        )
    had = {(line.urn, line.what) for line in change.cost_before.unknown}
    for line in change.cost_after.unknown:
        if (line.urn, line.what) not in had:
            yield Violation(
                f"what {line.name} ({line.what}) adds to a month is not known ({line.reason}), and {FIELD}"
                f" is {cap}",
                "say what to assume for it in policies.budget-unknown-cost.settings.assume",
                urn=line.urn,
                fleet_field=FIELD,
                unknown=True,
            )
