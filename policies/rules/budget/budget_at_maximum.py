"""The cost at maximum size is within the budget."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from pydantic import Field

from gpufleet.policies.rules.budget._caps import (
    FORECASTING,
    TYPES,
    example_fleet,
    fleet_of,
    most_expensive,
    no_fleet,
    sum_text,
)
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import AUTO_SCALING_GROUP, LAUNCH_TEMPLATE


class BudgetAtMaximumSettings(Settings):
    """The limit of the cost at maximum size."""

    share: Decimal = Field(
        Decimal(100), gt=0, description="Percent of budget.monthly that the cost at maximum size may reach"
    )


def _group(most: int) -> tuple[dict[str, object], ...]:
    return (
        {
            "type": LAUNCH_TEMPLATE,
            "name": "nodes",
            "props": {
                "id": "lt-1",
                "instanceType": "g6.xlarge",
                "blockDeviceMappings": [
                    {"deviceName": "/dev/sda1", "ebs": {"volumeSize": 200, "volumeType": "gp3"}}
                ],
            },
        },
        {
            "type": AUTO_SCALING_GROUP,
            "name": "atlas-prod-use1-serve",
            "props": {"minSize": 0, "maxSize": most, "launchTemplate": {"id": "lt-1", "version": "$Latest"}},
        },
    )


@stack_rule(
    "budget-at-maximum",
    group="budget",
    title="The cost at maximum size is within the budget",
    why="An autoscaler can grow a group to its maximum at any time. Each group counts at its largest size, "
    "with schedules and warm pools, at the highest price.",
    fix="Lower `max` of node groups or raise `budget.monthly`; if a fleet is allowed to exceed its budget "
    "for a while, set `policies.budget-at-maximum.settings.share`.",
    severity="medium",
    framework=FORECASTING,
    types=TYPES,
    fleet_field="budget.monthly",
    settings=BudgetAtMaximumSettings,
    passes=Example(_group(8), fleet=example_fleet(monthly="5000 USD")),
    fails=Example(_group(80), fleet=example_fleet(monthly="5000 USD")),
)
def budget_at_maximum(stack: Stack, context: RuleContext[BudgetAtMaximumSettings]) -> Iterator[Violation]:
    """Compare the sum of all lines at maximum size with the cap and the configured share of it."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    cost = context.shared.cost_of(stack)
    total = cost.total
    value, amount = sum_text(total, "maximum")
    cap, share = spec.budget.monthly, context.settings.share
    if value > cap.amount * share / 100:
        _, expected = sum_text(total, "expected")
        allowed = f"{cap}" if share == 100 else f"{cap}, of which {share.normalize():f}% are allowed"
        yield Violation(
            f"at maximum size the stack costs {amount} a month ({expected} at the requested size), and"
            f" budget.monthly is {allowed}",
            "lower `max` of node groups, or raise budget.monthly; the most expensive at maximum size:"
            f" {most_expensive(cost.lines, 'maximum')}",
            fleet_field="budget.monthly",
        )
