"""The prices that the budget rules use are not older than allowed."""

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
    """The maximum age of prices."""

    days: int = Field(STALE_AFTER_DAYS, ge=1, description="Days after which a price is too old")


@stack_rule(
    "price-catalog-age",
    group="budget",
    title="Prices are recent",
    why="A budget check is as good as its prices. The rule is advisory by default, because a change that "
    "passed yesterday should not fail only because a day has passed.",
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
    """Report the oldest dated price that a line uses. Undated prices have no age."""
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
    # Sort by name too: engines report resources in no fixed order.
    date, line = min(old, key=lambda item: (item[0], item[1].name))
    yield Violation(
        f"{len(old)} of {len(dated)} dated costs use prices older than {limit} days; the"
        f" oldest, of {line.name} ({line.what}), is from {date} ({(today - date).days} days ago)",
        "run `gpufleet catalog refresh` with AWS credentials",
        fleet_field="budget.monthly",
    )
