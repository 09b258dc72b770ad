"""Nodes launch from this stack's launch templates, in the declared version."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, TEMPLATES, launches
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import LAUNCH_TEMPLATE, NODE_GROUP


@stack_rule(
    "templates-known",
    group="security",
    title="Nodes launch from launch templates that the rules check",
    why="A launch template defines a node's metadata service, disks, addresses and security groups. No rule "
    "checks a template from elsewhere, or an older version of one from this stack.",
    fix="Keep the launch template in this stack and launch its newest version; give EKS node groups one.",
    severity="high",
    types=(*LAUNCHERS, *TEMPLATES),
    passes=Example(
        (
            {"type": LAUNCH_TEMPLATE, "name": "nodes", "props": {}},
            {
                "type": NODE_GROUP,
                "name": "group",
                "props": {"launchTemplate": {"version": "$Latest"}, "scalingConfig": {"maxSize": 1}},
                "depends": {"launchTemplate": ["nodes"]},
            },
        )
    ),
    fails=Example(({"type": NODE_GROUP, "props": {"scalingConfig": {"maxSize": 1}}},)),
)
def templates_known(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check all launches from a template, and node groups without one."""
    for launch in launches(stack):
        remedy = "keep the launch template in this stack, and launch its newest version"
        if launch.unclear:
            yield Violation(
                f"{launch.unclear}, so no rule can check the settings of its nodes",
                remedy,
                urn=launch.resource.urn,
                prop="launchTemplate",
                unknown=True,
            )
        elif launch.resource.type == NODE_GROUP and not launch.templates:
            yield Violation(
                "launchTemplate is not set, and EKS's default has no IMDSv2, encryption or cost tags",
                "add a launch template",
                urn=launch.resource.urn,
                prop="launchTemplate",
            )
