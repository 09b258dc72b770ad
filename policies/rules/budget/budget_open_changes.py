"""Open changes together stay within the budget."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from gpufleet.policies.rules.budget._caps import (
    FORECASTING,
    example_fleet,
    example_nodes,
    fleet_of,
    no_fleet,
    usd,
)
from gpufleet.policy.change import StackChange
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, change_rule


@change_rule(
    "budget-open-changes",
    group="budget",
    title="Open changes do not break the budget together",
    why="Two open changes can each fit into the budget and together exceed it. This rule adds up the "
    "changes that wait to be merged.",
    fix="Merge or close other changes first, or raise `budget.monthly`.",
    severity="medium",
    framework=FORECASTING,
    fleet_field="budget.monthly",
    passes=Example(example_nodes(2), before=example_nodes(1), fleet=example_fleet()),
    fails=Example(
        example_nodes(2), before=example_nodes(1), fleet=example_fleet(), open_changes={"#7": "4000"}
    ),
)
def budget_open_changes(change: StackChange, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Add the increases of other open changes to the cost after this one.

    A change that saves money does not count: it may never be merged.
    """
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    after = change.cost_after.total.expected
    cap = spec.budget.monthly
    others = {each.name: each.increase for each in change.open_changes if each.increase > 0}
    together = after + sum(others.values(), Decimal(0))
    # A change that adds nothing breaks nothing. budget-monthly reports one that exceeds the budget by itself.
    if after <= change.cost_before.total.expected or not after <= cap.amount < together:
        return
    waiting = ", ".join(f"{name} (+{usd(increase)})" for name, increase in others.items())
    yield Violation(
        f"with all open changes the stack is expected to cost {usd(together)} a month ({usd(after)}"
        f" with this change; {waiting}), and budget.monthly is {cap}",
        "merge or close the other changes first, or raise budget.monthly",
        fleet_field="budget.monthly",
    )
