"""The expected monthly cost is within the budget."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.budget._caps import (
    BUDGETING,
    TYPES,
    example_fleet,
    example_nodes,
    fleet_of,
    most_expensive,
    no_fleet,
    sum_text,
)
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack


@stack_rule(
    "budget-monthly",
    group="budget",
    title="The expected monthly cost is within the budget",
    why="AWS Budgets reports money that is already spent, a few times a day. This rule computes the cost of "
    "what is about to be created, at the requested size, racks included.",
    fix="Raise `budget.monthly` of the fleet file, or request fewer nodes or less storage.",
    severity="high",
    framework=BUDGETING,
    types=TYPES,
    fleet_field="budget.monthly",
    passes=Example(example_nodes(8), fleet=example_fleet(monthly="5000 USD")),
    fails=Example(example_nodes(9), fleet=example_fleet(monthly="5000 USD")),
)
def budget_monthly(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Compare the sum of all known costs at the requested size with the cap."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    cost = context.shared.cost_of(stack)
    value, amount = sum_text(cost.total, "expected")
    cap = spec.budget.monthly
    if value > cap.amount:
        yield Violation(
            f"the stack is expected to cost {amount} a month, and budget.monthly is {cap}",
            f"raise budget.monthly, or request less; the most expensive: {most_expensive(cost.lines)}",
            fleet_field="budget.monthly",
        )
