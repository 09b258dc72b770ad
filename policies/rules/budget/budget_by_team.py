"""The cost of each team is within its cap."""

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
    ungrouped_lines,
    ungrouped_violation,
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
    why="Teams share a fleet, and one team must not spend another's budget. The fleet file assigns nodes to "
    "teams, so changing a tag changes nothing. Racks are shared and count for no team.",
    fix="Raise the team's cap in `budget.teams`, or request fewer nodes for it.",
    severity="medium",
    framework=ALLOCATION,
    types=TYPES,
    fleet_field=FIELD,
    settings=SizeSettings,
    passes=Example(example_nodes(1), fleet=example_fleet(teams={"serving": "1000 USD"})),
    fails=Example(example_nodes(2), fleet=example_fleet(teams={"serving": "1000 USD"})),
)
def budget_by_team(stack: Stack, context: RuleContext[SizeSettings]) -> Iterator[Violation]:
    """Check the cost of each team's node groups. If there are caps, all nodes must belong to a group."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    if not spec.budget.teams:
        return
    cost = context.shared.cost_of(stack)
    yield from caps_of(context, cost, teams_of(spec), key="team", kind="team", field=FIELD)
    for line in ungrouped_lines(cost, context):
        yield ungrouped_violation(line, "team's node group")


def teams_of(spec: FleetSpec) -> set[str]:
    """Return the teams that own a node group of the fleet file."""
    return {group.team for site in spec.cloud for group in site.node_groups if group.team}
