"""Every resource has a known cost, or an assumed one in the fleet file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field, field_validator

from gpufleet.plan.assumptions import FIELD, amount_of, assumptions_of
from gpufleet.policies.rules.budget._caps import BUDGETING, TYPES, example_fleet, fleet_of, no_fleet
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.pricing.assume import key_for
from gpufleet.resources.stack import Stack

_GATEWAY = (
    {
        "type": "aws:ec2/natGateway:NatGateway",
        "name": "atlas-prod-use1-nat-a",
        "region": "us-gov-west-1",
        "props": {"tags": {"gpufleet:site": "use1"}},
    },
)
_ASSUMED = {"atlas-prod-use1-nat-*": "40 USD"}


class BudgetUnknownCostSettings(Settings):
    """Assumed costs of resources that have no price."""

    assume: dict[str, str] = Field(
        default_factory=dict,
        description="Monthly cost of a resource without its nodes, by its name (`*` matches any"
        " text), and of its nodes by `name/compute`; only the fleet file counts, in every budget rule",
    )

    @field_validator("assume")
    @classmethod
    def _amounts(cls, given: Mapping[str, str]) -> Mapping[str, str]:
        for pattern, text in given.items():
            amount_of(pattern, text)
        return given


def _accepting(assume: Mapping[str, str]) -> dict[str, Any]:
    return {**example_fleet(), "policies": {"budget-unknown-cost": {"settings": {"assume": assume}}}}


@stack_rule(
    "budget-unknown-cost",
    group="budget",
    title="Every resource has a known cost",
    why="An unknown price is not 0. A resource type without a price, or a size that is only known later "
    "would pass any budget. The rule lists them, so that the fleet file states an assumed amount for each. "
    "Where only the price of the region is not known, the highest of other regions counts, with a margin.",
    fix="Use resources with a price (`gpufleet catalog prices`), run `gpufleet catalog refresh`, or "
    "write an amount into `policies.budget-unknown-cost.settings.assume`.",
    severity="high",
    framework=BUDGETING,
    types=TYPES,
    settings=BudgetUnknownCostSettings,
    passes=Example(_GATEWAY, settings={"assume": _ASSUMED}, fleet=_accepting(_ASSUMED)),
    fails=Example(_GATEWAY, fleet=example_fleet()),
)
def budget_unknown_cost(stack: Stack, context: RuleContext[BudgetUnknownCostSettings]) -> Iterator[Violation]:
    """Report each resource and site without a price and without an assumed amount."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    written = assumptions_of(spec)
    for pattern, text in context.settings.assume.items():
        if written.get(pattern) != amount_of(pattern, text):
            yield Violation(
                f"'{text}' is assumed for {pattern} only in the configuration of this run, where no budget"
                " rule counts it",
                f"write it into the fleet file: {FIELD}",
            )
    for line in context.shared.cost_of(stack).unknown:
        whose = f"{line.name} ({line.type or 'on-premises'})"
        yield Violation(
            f"the monthly cost of {whose} is not known: {line.what}: {line.reason}",
            f"use a resource with a known price, or write into {FIELD}: {{{key_for(line)}: '<amount> USD'}}",
            urn=line.urn,
            fleet_field="" if line.urn else "onprem",
            unknown=True,
        )
