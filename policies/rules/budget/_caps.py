"""Helpers of the budget rules: amounts as text, the owner of a cost line, and the fleet file."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field

from gpufleet.plan.names import SYSTEM
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Framework, Settings, Violation
from gpufleet.pricing.models import Amount, CostLine, FleetCost
from gpufleet.pricing.of_stack.table import PRICED
from gpufleet.spec.models import FleetSpec
from gpufleet.spec.paths import field_path

TYPES = frozenset(PRICED)
"""Resource types that have a price."""

BUDGETING = Framework(
    "FinOps Framework", "Budgeting", "https://www.finops.org/framework/capabilities/budgeting/"
)
ALLOCATION = Framework(
    "FinOps Framework", "Allocation", "https://www.finops.org/framework/capabilities/allocation/"
)
FORECASTING = Framework(
    "FinOps Framework", "Forecasting", "https://www.finops.org/framework/capabilities/forecasting/"
)

_TOP = 3

NODE = "aws:ec2/instance:Instance"
"""Resource types that the examples of these rules use."""


class SizeSettings(Settings):
    """The size at which costs are compared with the caps."""

    size: Literal["expected", "maximum"] = Field(
        "expected", description="Compare the cost at the `expected` or at the `maximum` size"
    )


def usd(amount: Decimal) -> str:
    """Format an amount: whole dollars from 100 USD, cents below."""
    return f"{amount:,.0f} USD" if abs(amount) >= 100 else f"{amount:,.2f} USD"


def sum_text(amount: Amount, size: str) -> tuple[Decimal, str]:
    """Return a sum at a size, and its text: "at least" if part of it is unknown."""
    value = amount.maximum if size == "maximum" else amount.expected
    return value, usd(value) if amount.complete else f"at least {usd(value)}"


def fleet_of(context: RuleContext[Any]) -> FleetSpec | None:
    """Return the fleet file, if the stack has one. Rules report `no_fleet` otherwise."""
    return context.shared.spec


def no_fleet(context: RuleContext[Any]) -> Violation:
    """Return the violation of a stack without a fleet file."""
    return Violation(
        f"the stack {context.shared.stack} has no fleet file, so it has no budget",
        f"write stacks/{context.shared.stack}/fleet.yaml with a `budget`, or name the file in the stack's"
        " configuration (gpufleet:fleetFile)",
        unknown=True,
    )


def most_expensive(lines: tuple[CostLine, ...], size: str = "expected") -> str:
    """List the most expensive lines."""

    def amount(line: CostLine) -> Decimal:
        value = line.maximum if size == "maximum" else line.expected
        return value if value is not None else Decimal(0)

    most = sorted((line for line in lines if amount(line)), key=amount, reverse=True)[:_TOP]
    return ", ".join(f"{line.name} ({line.what}: {usd(amount(line))})" for line in most) or "nothing"


def caps_of(
    context: RuleContext[SizeSettings],
    cost: FleetCost,
    known: set[str],
    *,
    key: Literal["site", "owner", "team"],
    kind: str,
    field: str,
) -> Iterator[Violation]:
    """Yield a violation for each cap of `field` that its `kind` exceeds, or whose target does not exist.

    `known` are the names of all targets in the fleet file, `key` is what costs are summed by.
    """
    spec, size = context.shared.spec, context.settings.size
    caps = getattr(spec.budget, field.partition(".")[2]) if spec is not None else {}
    sums, lines = cost.by(key), _grouped(cost, key)
    for name, cap in caps.items():
        where = field_path((*field.split("."), name))
        if name not in known:
            yield Violation(
                f"{field}.{name} is a cap of a {kind} that does not exist",
                f"use one of {', '.join(sorted(known))}" if known else "remove it",
                fleet_field=where,
            )
        value, cost_text = sum_text(sums.get(name, Amount()), size)
        if value > cap.amount:
            at = " at its maximum size" if size == "maximum" else ""
            yield Violation(
                f"{kind} {name} costs {cost_text} a month{at}, and {field}.{name} is {cap}",
                f"raise {field}.{name}, or request less; the most expensive part:"
                f" {most_expensive(lines[name], size)}",
                fleet_field=where,
            )


def ungrouped_lines(cost: FleetCost, context: RuleContext[Any]) -> list[CostLine]:
    """Return the cost lines of nodes that belong to no node group of the fleet file: no cap includes them."""
    plan = context.shared.plan
    known = {(group.site, group.name) for group in plan.node_groups} if plan is not None else set()
    known |= {(site.site, SYSTEM) for site in plan.cloud} if plan is not None else set()
    return [
        line
        for line in cost.lines
        if line.kind == "compute" and line.urn and (line.site, line.owner) not in known
    ]


def ungrouped_violation(line: CostLine, whose: str) -> Violation:
    """Return the violation of a cost that no cap includes."""
    amount = usd(line.maximum) if line.maximum is not None else "an unknown amount"
    return Violation(
        f"{line.name} costs up to {amount} a month and belongs to no {whose}, so no cap includes it",
        "declare it as a node group of the fleet file, and tag it gpufleet:site and gpufleet:node-group",
        urn=line.urn,
        prop="tags",
    )


def _grouped(cost: FleetCost, key: Literal["site", "owner", "team"]) -> dict[str, tuple[CostLine, ...]]:
    """Group the lines behind `FleetCost.by(key)`."""
    found: dict[str, list[CostLine]] = {}
    for line in cost.lines:
        name = {
            "site": line.site,
            "owner": f"{line.site}/{line.owner}" if line.owner else "",
            "team": line.team,
        }[key]
        found.setdefault(name, []).append(line)
    return {name: tuple(lines) for name, lines in found.items()}


def example_fleet(**budget: Any) -> dict[str, Any]:
    """Return a fleet file for examples: one site, one node group of a team, and a budget."""
    return {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": "prod",
        "budget": {"monthly": "5000 USD", **budget},
        "tags": {"team": "ml-platform", "cost-center": "cc-1", "project": "atlas"},
        "software": {"channel": "2026.11"},
        "cloud": [
            {
                "site": "use1",
                "provider": "aws",
                "region": "us-east-1",
                "zones": ["us-east-1a"],
                "network": {"cidr": "10.0.0.0/16"},
                "scheduler": "kubernetes",
                "kubernetes": {"version": "1.35", "teams": [{"name": "serving", "gpus": 8}]},
                "node_groups": [
                    {
                        "name": "serve",
                        "instance_types": ["g6.xlarge"],
                        "capacity": {"on_demand": {"min": 0, "max": 8}},
                        "team": "serving",
                    }
                ],
            }
        ],
    }


def example_nodes(count: int, name: str = "node", **tags: str) -> tuple[dict[str, Any], ...]:
    """Return `count` g6.xlarge instances (587.50 USD a month each, and 16 for the volume) for examples."""
    given = {"gpufleet:site": "use1", "gpufleet:node-group": "serve", **tags}
    return tuple(
        {
            "type": NODE,
            "name": f"{name}-{number}",
            "props": {
                "instanceType": "g6.xlarge",
                "rootBlockDevice": {"volumeSize": 200, "volumeType": "gp3"},
                "tags": {key: value for key, value in given.items() if value},
            },
        }
        for number in range(count)
    )
