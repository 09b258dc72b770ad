"""No site costs more than the fleet file allows it."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.budget._caps import (
    ALLOCATION,
    TYPES,
    SizeSettings,
    example_fleet,
    example_nodes,
    fleet_of,
    grouped,
    no_fleet,
    no_such,
    over_caps,
    stray,
)
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Violation, stack_rule
from gpufleet.resources.stack import Stack

FIELD = "budget.sites"


@stack_rule(
    "budget-by-site",
    group="budget",
    title="Each site is within its own budget",
    why="One site may grow at the expense of another within the same total, which nobody decided. Racks "
    "are sites as well.",
    fix="Raise the site's cap in `budget.sites`, or ask for less there.",
    severity="medium",
    framework=ALLOCATION,
    types=TYPES,
    fleet_field=FIELD,
    settings=SizeSettings,
    passes=Example(example_nodes(1), fleet=example_fleet(sites={"use1": "1000 USD"})),
    fails=Example(example_nodes(2), fleet=example_fleet(sites={"use1": "1000 USD"})),
)
def budget_by_site(stack: Stack, context: RuleContext[SizeSettings]) -> Iterator[Violation]:
    """Sites by what their resources cost; where there are caps, everything but keys has to be in one."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    caps = spec.budget.sites
    if not caps:
        return
    cost = context.shared.cost_of(stack)
    known = {site.site for site in spec.cloud} | {site.site for site in spec.onprem}
    yield from no_such(caps, known, kind="site", field=FIELD)
    yield from over_caps(
        caps, cost.by("site"), grouped(cost, "site"), context.settings.size, kind="site", field=FIELD
    )
    for line in cost.lines:
        if line.site not in known and line.kind != "service" and (not line.known or line.maximum):
            yield stray(line, "site")
