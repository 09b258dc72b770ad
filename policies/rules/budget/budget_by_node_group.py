"""The cost of each node group is within its cap."""

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

FIELD = "budget.node_groups"


@stack_rule(
    "budget-by-node-group",
    group="budget",
    title="Each node group is within its own budget",
    why="A cap per node group limits what one project spends. Instances, volumes and reservations count. "
    "Nodes that belong to no group would be in no budget.",
    fix="Raise the group's cap in `budget.node_groups` (by `site/name`), or request fewer nodes.",
    severity="medium",
    framework=ALLOCATION,
    types=TYPES,
    fleet_field=FIELD,
    settings=SizeSettings,
    passes=Example(example_nodes(1), fleet=example_fleet(node_groups={"use1/serve": "1000 USD"})),
    fails=Example(example_nodes(2), fleet=example_fleet(node_groups={"use1/serve": "1000 USD"})),
)
def budget_by_node_group(stack: Stack, context: RuleContext[SizeSettings]) -> Iterator[Violation]:
    """Check the cost of each node group. If there are caps, all nodes must belong to a group."""
    spec = fleet_of(context)
    if spec is None:
        yield no_fleet(context)
        return
    if not spec.budget.node_groups:
        return
    cost = context.shared.cost_of(stack)
    known = {f"{site.site}/{group.name}" for site in spec.cloud for group in site.node_groups}
    yield from caps_of(context, cost, known, key="owner", kind="node group", field=FIELD)
    for line in ungrouped_lines(cost, context):
        yield ungrouped_violation(line, "node group")
