"""What the stack costs when everything has scaled to its maximum stays within the budget, too."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from pydantic import Field

from gpufleet.policies.rules.budget._caps import (
    FORECASTING,
    TYPES,
    about,
    example_fleet,
    fleet_of,
    most_expensive,
    no_fleet,
)
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import AUTO_SCALING_GROUP, LAUNCH_TEMPLATE


class BudgetAtMaximumSettings(Settings):
    """How far the cost at maximum size may go."""

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
    why="An autoscaler goes to a group's maximum without asking anybody. A group counts at its largest "
    "size here, with schedules and warm pools included, at the highest price.",
    fix="Lower `max` of node groups or raise `budget.monthly`; where a fleet is meant to exceed its budget "
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
    """The sum of all lines at their largest, against the cap and the configured share of it."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    cost = context.shared.cost_of(stack)
    total = cost.total
    value, said = about(total, "maximum")
    cap, share = spec.budget.monthly, context.settings.share
    if value > cap.amount * share / 100:
        _, expected = about(total, "expected")
        allowed = f"{cap}" if share == 100 else f"{cap}, of which {share.normalize():f}% are allowed"
        yield Violation(
            f"at its maximum size the stack costs {said} a month ({expected} as asked for), and"
            f" budget.monthly is {allowed}",
            "lower `max` of node groups, or raise budget.monthly; the most expensive at maximum size:"
            f" {most_expensive(cost.lines, 'maximum')}",
            fleet_field="budget.monthly",
        )
