"""Nodes of a Capacity Block are in no placement group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet.policies.rules.capacity._placement import placements, placements_of
from gpufleet.policies.rules.capacity._reservations import reservations, uses_block
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, TEMPLATES, launches
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import CAPACITY_BLOCK, LAUNCH_TEMPLATE, NODE_GROUP


def _example(**template: Any) -> Example:
    block = {"instanceType": "p5.48xlarge", "instanceMarketOptions": {"marketType": "capacity-block"}}
    group = {
        "capacityType": "CAPACITY_BLOCK",
        "launchTemplate": {"version": "$Latest"},
        "scalingConfig": {"minSize": 0, "maxSize": 2},
    }
    return Example(
        (
            {"type": LAUNCH_TEMPLATE, "name": "template", "props": {**block, **template}},
            {
                "type": NODE_GROUP,
                "name": "nodes",
                "props": group,
                "depends": {"launchTemplate": ["template"]},
            },
        )
    )


@stack_rule(
    "capacity-block-no-placement-group",
    group="capacity",
    title="Nodes of a Capacity Block are in no placement group",
    why="AWS places the instances of a block close together and rejects a placement group for them (EC2 "
    "User Guide, Capacity Blocks for ML): the block is paid for, and no node starts.",
    fix="Leave `placement` out of the node group, and `placement.groupName` out of the launch template.",
    severity="critical",
    types=(*LAUNCHERS, *TEMPLATES, CAPACITY_BLOCK),
    fleet_field="cloud",
    passes=_example(),
    fails=_example(placement={"groupName": "cluster"}),
)
def capacity_block_no_placement_group(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check launches into a block, their templates, and unused templates for blocks."""
    found = reservations(stack)
    reported: set[tuple[str, str]] = set()
    for launch in launches(stack):
        if not uses_block(launch, found.use(launch)):
            continue
        if launch.unclear:
            yield Violation(
                f"whether its launch template has a placement group is not known: {launch.unclear}",
                "keep the launch template in this stack and launch its newest version",
                urn=launch.resource.urn,
                prop="launchTemplate",
                unknown=True,
            )
        for placed in placements(stack, launch):
            reported.add((placed.resource.urn, placed.prop))
            yield _violation(placed.resource.urn, placed.resource.show(placed.prop), placed.prop)
    for template in stack.of_type(LAUNCH_TEMPLATE):
        if str(template.get("instanceMarketOptions.marketType")) == "capacity-block":
            for placed in placements_of(stack, template):
                if template.inputs is not None and placed.prop.partition(".")[0] not in template.inputs:
                    continue
                if (template.urn, placed.prop) not in reported:
                    yield _violation(template.urn, template.show(placed.prop), placed.prop)


def _violation(urn: str, value: str, prop: str) -> Violation:
    return Violation(
        f"{prop} is {value}, and a Capacity Block cannot be launched into a placement group",
        "remove it: AWS places the nodes of a block close together",
        urn=urn,
        prop=prop,
    )
