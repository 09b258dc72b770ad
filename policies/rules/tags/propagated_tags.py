"""Instances, volumes and network interfaces that a group launches have the required tags."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.tags._launched import REQUIRED, Kind, has_no_template, of_launch, of_template
from gpufleet.policies.rules.tags._required import RequiredKeySettings, missing_tags
from gpufleet.policies.rules.tags._tags import Tags, read
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Framework, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, declared, launches
from gpufleet.resources.node_pools import node_pools
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import LAUNCH_CONFIGURATION, LAUNCH_TEMPLATE, NODE_CLASS, NODE_GROUP, NODE_POOL

_TAGS = {"team": "research", "cost-center": "cc-4711", "project": "atlas"}


class PropagatedTagsSettings(RequiredKeySettings):
    """Which launched resources need tags."""

    launched: tuple[Kind, ...] = Field(REQUIRED, description="What a launch template must tag")


def _template(*kinds: str) -> dict[str, object]:
    return {
        "type": LAUNCH_TEMPLATE,
        "name": "nodes",
        "props": {
            "name": "nodes",
            "tags": _TAGS,
            "tagSpecifications": [{"resourceType": kind, "tags": _TAGS} for kind in kinds],
        },
    }


def _node_group(**props: object) -> dict[str, object]:
    return {
        "type": NODE_GROUP,
        "name": "group",
        "props": {
            "clusterName": "atlas",
            "scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 4},
            "tags": _TAGS,
            **props,
        },
    }


@stack_rule(
    "propagated-tags",
    group="tags",
    title="Launched instances, volumes and network interfaces have the required tags",
    why="Instances and their volumes are nearly all of a GPU fleet's bill, and they do not get the tags of "
    "the node group or fleet that launches them.",
    fix="Add a `tagSpecifications` entry with the tags for each of `instance`, `volume` and "
    "`network-interface` to the launch template, and use it for the node group.",
    severity="high",
    framework=Framework(
        "AWS Resource Tagging Standard",
        "EC2.38",
        "https://docs.aws.amazon.com/securityhub/latest/userguide/ec2-controls.html#ec2-38",
    ),
    types=(*LAUNCHERS, LAUNCH_TEMPLATE, LAUNCH_CONFIGURATION, NODE_CLASS, NODE_POOL),
    settings=PropagatedTagsSettings,
    fleet_field="tags",
    passes=Example(
        (_template(*REQUIRED), _node_group(launchTemplate={"name": "nodes", "version": "$Latest"}))
    ),
    fails=Example((_template("instance"), _node_group())),
)
def propagated_tags(stack: Stack, context: RuleContext[PropagatedTagsSettings]) -> Iterator[Violation]:
    """Check all launches with their launch templates, and unused templates."""
    settings = context.settings
    keys = settings.all_keys(context.shared.spec)
    used: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for launch in launches(stack):
        resource = launch.resource
        used.update(template.urn for template in launch.templates)
        if launch.unclear:
            yield Violation(
                f"the tags of what it launches cannot be checked: {launch.unclear}",
                "launch from a template of this stack, in its newest version",
                urn=resource.urn,
                unknown=True,
            )
        elif has_no_template(launch):
            yield Violation(
                f"it has no launch template, and without one {', '.join(settings.launched)} get no tags",
                "add a launch template whose tagSpecifications contain them",
                urn=resource.urn,
                prop="launchTemplate",
            )
        for where, kind, tags in of_launch(launch, settings.launched):
            yield from _missing(where, kind, tags, keys, settings, seen)
    for node_class in map(declared, stack.of_type(NODE_CLASS)):
        tags = read(node_class, node_class.get("spec.tags"), "spec.tags")
        for each in missing_tags(tags, keys, settings, "each instance that Karpenter launches"):
            remedy = "write them in spec.tags of the EC2NodeClass"
            yield Violation(each.message, remedy, urn=node_class.urn, prop=each.prop, unknown=each.unknown)
    for pool in node_pools(stack):
        if pool.node_class is None:
            yield Violation(
                "the tags of what it launches cannot be checked: its EC2NodeClass is not in this stack",
                "create the EC2NodeClass that spec.template.spec.nodeClassRef names in this stack",
                urn=pool.resource.urn,
                prop="spec.template.spec.nodeClassRef",
                unknown=True,
            )
    for template in stack.of_type(LAUNCH_TEMPLATE):
        if template.urn not in used:
            for where, kind, tags in of_template(declared(template), settings.launched):
                yield from _missing(where, kind, tags, keys, settings, seen)


def _missing(
    where: Resource,
    kind: Kind,
    tags: Tags,
    keys: tuple[str, ...],
    settings: PropagatedTagsSettings,
    seen: set[tuple[str, str]],
) -> Iterator[Violation]:
    for each in missing_tags(tags, keys, settings, f"each {kind} it launches"):
        if (where.urn, each.message) not in seen:
            seen.add((where.urn, each.message))
            remedy = f"write them in a tagSpecifications entry with resourceType {kind}"
            yield Violation(each.message, remedy, urn=where.urn, prop=each.prop, unknown=each.unknown)
