"""What the stack is expected to cost a month stays within the budget."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.budget._caps import (
    BUDGETING,
    TYPES,
    about,
    example_fleet,
    example_nodes,
    fleet_of,
    most_expensive,
    no_fleet,
)
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack


@stack_rule(
    "budget-monthly",
    group="budget",
    title="The expected cost of a month is within the budget",
    why="AWS Budgets tells of money that is spent already, and only a few times a day. The cost of what "
    "is about to be created is computed here, at the size that is asked for, the racks' included.",
    fix="Raise `budget.monthly` of the fleet file, or ask for fewer nodes or less storage.",
    severity="high",
    framework=BUDGETING,
    types=TYPES,
    fleet_field="budget.monthly",
    passes=Example(example_nodes(8), fleet=example_fleet(monthly="5000 USD")),
    fails=Example(example_nodes(9), fleet=example_fleet(monthly="5000 USD")),
)
def budget_monthly(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """The sum of all lines at the asked for size; what is unknown is `budget-unknown-cost`'s."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    cost = context.shared.cost_of(stack)
    value, said = about(cost.total, "expected")
    cap = spec.budget.monthly
    if value > cap.amount:
        yield Violation(
            f"the stack is expected to cost {said} a month, and budget.monthly is {cap}",
            f"raise budget.monthly, or ask for less; the most expensive: {most_expensive(cost.lines)}",
            fleet_field="budget.monthly",
        )
