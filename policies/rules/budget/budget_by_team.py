"""No team costs more than the fleet file allows it."""

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
    strays,
)
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Violation, stack_rule
from gpufleet.resources.stack import Stack
from gpufleet.spec.models import FleetSpec

FIELD = "budget.teams"


@stack_rule(
    "budget-by-team",
    group="budget",
    title="Each team is within its own budget",
    why="Teams share a fleet, and one must not spend another's money. Whose nodes are whose follows from "
    "the fleet file, so dropping or changing a tag moves nothing. Racks are shared, and in no team's cost.",
    fix="Raise the team's cap in `budget.teams`, or ask for fewer nodes for it.",
    severity="medium",
    framework=ALLOCATION,
    types=TYPES,
    fleet_field=FIELD,
    settings=SizeSettings,
    passes=Example(example_nodes(1), fleet=example_fleet(teams={"serving": "1000 USD"})),
    fails=Example(example_nodes(2), fleet=example_fleet(teams={"serving": "1000 USD"})),
)
def budget_by_team(stack: Stack, context: RuleContext[SizeSettings]) -> Iterator[Violation]:
    """Teams by what their node groups cost; where there are caps, all nodes have to be in a group."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    caps = spec.budget.teams
    if not caps:
        return
    cost = context.shared.cost_of(stack)
    yield from no_such(caps, teams_of(spec), kind="team", field=FIELD)
    yield from over_caps(
        caps, cost.by("team"), grouped(cost, "team"), context.settings.size, kind="team", field=FIELD
    )
    for line in strays(cost, context):
        yield stray(line, "team's node group")


def teams_of(spec: FleetSpec) -> set[str]:
    """The teams that a node group of the fleet file belongs to: those that can have a cost."""
    return {group.team for site in spec.cloud for group in site.node_groups if group.team}
