"""The prices that the budget rules compute with are not older than allowed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from pydantic import Field

from gpufleet.catalog import STALE_AFTER_DAYS
from gpufleet.policies.rules.budget._caps import TYPES, example_fleet, example_nodes
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack


class PriceCatalogAgeSettings(Settings):
    """How old prices may be."""

    days: int = Field(STALE_AFTER_DAYS, ge=1, description="Days after which a price is old")


@stack_rule(
    "price-catalog-age",
    group="budget",
    title="Prices are recent",
    why="A budget check is as good as its prices. This is advice unless the environment says otherwise: "
    "nothing that was right yesterday should be refused because of the calendar alone.",
    fix="Run `gpufleet catalog refresh` with AWS credentials.",
    severity="low",
    enforcement="advisory",
    types=TYPES,
    fleet_field="budget.monthly",
    settings=PriceCatalogAgeSettings,
    passes=Example(example_nodes(1), settings={"days": 1000}, fleet=example_fleet()),
    fails=Example(example_nodes(1), settings={"days": 30}, fleet=example_fleet()),
)
def price_catalog_age(stack: Stack, context: RuleContext[PriceCatalogAgeSettings]) -> Iterator[Violation]:
    """The oldest dated price that some line was computed with. Undated prices have no age."""
    today = context.shared.now.date()
    limit = context.settings.days
    dated = [
        (dt.date.fromisoformat(line.date), line)
        for line in context.shared.cost_of(stack).lines
        if line.date is not None
    ]
    old = [(date, line) for date, line in dated if (today - date).days > limit]
    if not old:
        return
    # By name too: engines hand the resources over in no fixed order.
    date, line = min(old, key=lambda item: (item[0], item[1].name))
    yield Violation(
        f"{len(old)} of {len(dated)} dated costs are computed with prices older than {limit} days; the"
        f" oldest, of {line.name} ({line.what}), is from {date} ({(today - date).days} days ago)",
        "run `gpufleet catalog refresh` with AWS credentials",
        fleet_field="budget.monthly",
    )
