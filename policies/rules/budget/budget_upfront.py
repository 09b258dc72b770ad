"""Upfront payments are within their own cap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet.policies.rules.budget._caps import example_fleet, fleet_of, no_fleet, usd
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Framework, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BLOCK_EXTENSION, CAPACITY_BLOCK

FIELD = "budget.upfront"


def _block(days: int) -> tuple[dict[str, Any], ...]:
    return (
        {
            "type": CAPACITY_BLOCK,
            "name": "pretrain",
            "props": {
                "instanceType": "p5.48xlarge",
                "instanceCount": 2,
                "startDate": "2026-12-01T11:30:00Z",
                "endDate": f"2026-12-{1 + days:02}T11:30:00Z",
            },
        },
    )


@stack_rule(
    "budget-upfront",
    group="budget",
    title="Upfront payments are within their own cap",
    why="A Capacity Block is paid upfront and cannot be cancelled, so a monthly budget reports it too late "
    "and shows only part of it.",
    fix="Set or raise `budget.upfront`, or reserve fewer nodes or days.",
    severity="high",
    framework=Framework(
        "FinOps Framework",
        "Rate Optimization",
        "https://www.finops.org/framework/capabilities/rate-optimization/",
    ),
    types=(CAPACITY_BLOCK, BLOCK_EXTENSION),
    fleet_field=FIELD,
    passes=Example(_block(1), fleet=example_fleet(upfront="5000 USD")),
    fails=Example(_block(14), fleet=example_fleet(upfront="5000 USD")),
)
def budget_upfront(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check the sum of upfront payments. An unknown amount fails, even if a monthly cost is assumed."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    cost = context.shared.cost_of(stack)
    cap = spec.budget.upfront
    paid = cost.upfront
    if cap is None and paid:
        yield Violation(
            f"{usd(paid)} are paid upfront, and the fleet file has no {FIELD}",
            f"set {FIELD} to the allowed upfront amount, or buy capacity otherwise",
            fleet_field="budget",
        )
    elif cap is not None and paid > cap.amount:
        yield Violation(
            f"{usd(paid)} are paid upfront, and {FIELD} is {cap}",
            f"raise {FIELD}, or reserve fewer nodes or days",
            fleet_field=FIELD,
        )
    for line in cost.lines:
        if line.type in (CAPACITY_BLOCK, BLOCK_EXTENSION) and not line.upfront:
            yield Violation(
                f"the upfront cost of {line.name} is not known: {line.reason or line.basis}",
                "use an instance type, a number of nodes and a duration that the catalog has a price for",
                urn=line.urn,
                prop="capacityBlockOfferingId" if line.type == CAPACITY_BLOCK else "hours",
                unknown=True,
            )
