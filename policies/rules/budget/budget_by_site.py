"""The cost of each site is within its cap."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.budget._caps import (
    ALLOCATION,
    TYPES,
    SizeSettings,
    caps_of,
    example_fleet,
    example_nodes,
    fleet_of,
    no_fleet,
    ungrouped_violation,
)
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Violation, stack_rule
from gpufleet.resources.stack import Stack

FIELD = "budget.sites"


@stack_rule(
    "budget-by-site",
    group="budget",
    title="Each site is within its own budget",
    why="Within one total, a site can grow at the expense of another. A cap per site prevents that. Racks "
    "are sites too.",
    fix="Raise the site's cap in `budget.sites`, or request less there.",
    severity="medium",
    framework=ALLOCATION,
    types=TYPES,
    fleet_field=FIELD,
    settings=SizeSettings,
    passes=Example(example_nodes(1), fleet=example_fleet(sites={"use1": "1000 USD"})),
    fails=Example(example_nodes(2), fleet=example_fleet(sites={"use1": "1000 USD"})),
)
def budget_by_site(stack: Stack, context: RuleContext[SizeSettings]) -> Iterator[Violation]:
    """Check the cost of each site. If there are caps, everything except keys must belong to a site."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    if not spec.budget.sites:
        return
    cost = context.shared.cost_of(stack)
    known = {site.site for site in spec.cloud} | {site.site for site in spec.onprem}
    yield from caps_of(context, cost, known, key="site", kind="site", field=FIELD)
    for line in cost.lines:
        if line.site not in known and line.kind != "service" and (not line.known or line.maximum):
            yield ungrouped_violation(line, "site")
