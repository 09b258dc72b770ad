"""No node group costs more than the fleet file allows it."""

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

FIELD = "budget.node_groups"


@stack_rule(
    "budget-by-node-group",
    group="budget",
    title="Each node group is within its own budget",
    why="A node group is what a project is given. Its instances, volumes and reservations count, and "
    "nodes that belong to no group would be in no budget.",
    fix="Raise the group's cap in `budget.node_groups` (by `site/name`), or ask for fewer nodes.",
    severity="medium",
    framework=ALLOCATION,
    types=TYPES,
    fleet_field=FIELD,
    settings=SizeSettings,
    passes=Example(example_nodes(1), fleet=example_fleet(node_groups={"use1/serve": "1000 USD"})),
    fails=Example(example_nodes(2), fleet=example_fleet(node_groups={"use1/serve": "1000 USD"})),
)
def budget_by_node_group(stack: Stack, context: RuleContext[SizeSettings]) -> Iterator[Violation]:
    """Node groups by what their resources cost; where there are caps, all nodes have to be in a group."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    caps = spec.budget.node_groups
    if not caps:
        return
    cost = context.shared.cost_of(stack)
    known = {f"{site.site}/{group.name}" for site in spec.cloud for group in site.node_groups}
    yield from no_such(caps, known, kind="node group", field=FIELD)
    yield from over_caps(
        caps, cost.by("owner"), grouped(cost, "owner"), context.settings.size, kind="node group", field=FIELD
    )
    for line in strays(cost, context):
        yield stray(line, "node group")
