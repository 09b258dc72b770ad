"""Nothing has an unknown cost, or the fleet file says what to assume for it."""

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
        "region": "us-west-2",
        "props": {"tags": {"gpufleet:site": "use1"}},
    },
)
_ASSUMED = {"atlas-prod-use1-nat-*": "40 USD"}


class BudgetUnknownCostSettings(Settings):
    """What to assume for resources that have no price."""

    assume: dict[str, str] = Field(
        default_factory=dict,
        description="What a resource costs a month besides its nodes, by its name (`*` stands for any"
        " text), and its nodes by `name/compute`; counts in every budget rule, from the fleet file alone",
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
    why="An unknown price is not 0: a resource type without a known price, a region of which no price "
    "was read or a size that is only known afterwards would pass any budget. Such a resource is named, and "
    "somebody says what to assume for it where everybody can see it.",
    fix="Use what has a price (`gpufleet catalog prices`), read prices with `gpufleet catalog refresh`, or "
    "write an amount into `policies.budget-unknown-cost.settings.assume`.",
    severity="high",
    framework=BUDGETING,
    types=TYPES,
    settings=BudgetUnknownCostSettings,
    passes=Example(_GATEWAY, settings={"assume": _ASSUMED}, fleet=_accepting(_ASSUMED)),
    fails=Example(_GATEWAY, fleet=example_fleet()),
)
def budget_unknown_cost(stack: Stack, context: RuleContext[BudgetUnknownCostSettings]) -> Iterator[Violation]:
    """Each resource and site without a price that the fleet file assumes nothing for."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    written = assumptions_of(spec)
    for pattern, text in context.settings.assume.items():
        if written.get(pattern) != amount_of(pattern, text):
            yield Violation(
                f"'{text}' is assumed for {pattern} in the configuration of this run alone, where no budget"
                " rule counts it",
                f"write it into the fleet file: {FIELD}",
            )
    for line in context.shared.cost_of(stack).unknown:
        whose = f"{line.name} ({line.type or 'on-premises'})"
        yield Violation(
            f"what {whose} costs a month is not known: {line.what}: {line.reason}",
            f"use what has a price, or write into {FIELD}: {{{key_for(line)}: '<amount> USD'}}",
            urn=line.urn,
            fleet_field="" if line.urn else "onprem",
            unknown=True,
        )
