"""Nodes that train together have every EFA interface of their type, in one zone and one security group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from gpufleet.catalog import efa_layout
from gpufleet.policies.rules.capacity._efa import EFA_TYPES, has_efa, self_referring
from gpufleet.policies.rules.capacity._reservations import reservations, uses_block
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, Launch, launches, workload_of
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    INSTANCE,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    SECURITY_GROUP,
    SECURITY_GROUP_EGRESS,
    SECURITY_GROUP_INGRESS,
    SPOT_INSTANCE_REQUEST,
    SUBNET,
)

Slot = tuple[Any, Any, Any]


class EfaCompleteSettings(Settings):
    """Which groups need EFA."""

    workloads: tuple[str, ...] = Field(
        ("training",), description="Workloads whose nodes need the EFA interfaces of their type"
    )
    nodes: int = Field(2, ge=2, description="Minimum number of nodes of a group to which the rule applies")


def _example(count: int) -> Example:
    first = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    efa = {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"}
    depends = {"securityGroupId": ["efa"], "referencedSecurityGroupId": ["efa"]}
    return Example(
        (
            {"type": SECURITY_GROUP, "name": "efa"},
            {
                "type": SECURITY_GROUP_INGRESS,
                "name": "in",
                "props": {"ipProtocol": "-1"},
                "depends": depends,
            },
            {
                "type": SECURITY_GROUP_EGRESS,
                "name": "out",
                "props": {"ipProtocol": "-1"},
                "depends": depends,
            },
            {"type": SUBNET, "name": "subnet", "props": {"availabilityZone": "us-east-1a"}},
            {
                "type": LAUNCH_TEMPLATE,
                "name": "template",
                "props": {"networkInterfaces": [first, efa][:count]},
                "depends": {"networkInterfaces": ["efa"]},
            },
            {
                "type": NODE_GROUP,
                "name": "nodes",
                "props": {
                    "instanceTypes": ["g6.8xlarge"],
                    "labels": {"gpufleet.io/workload": "training"},
                    "launchTemplate": {"version": "$Latest"},
                    "scalingConfig": {"minSize": 0, "maxSize": 2},
                    "subnetIds": ["subnet-0123456789abcdef0"],
                },
                "depends": {"launchTemplate": ["template"], "subnetIds": ["subnet"]},
            },
        )
    )


@stack_rule(
    "efa-complete",
    group="capacity",
    title="Nodes that work together have all EFA interfaces of their type",
    why="Each missing interface is bandwidth that is paid for and not available: a p5.48xlarge has 32. NCCL "
    "silently uses TCP if EFA is missing, in another zone or blocked by a security group.",
    fix="Write `network: efa`: the catalog defines the interfaces. Without it, set the layout of the type, "
    "one zone, and a security group that refers to itself in the launch template.",
    severity="high",
    types=(*LAUNCHERS, LAUNCH_TEMPLATE, SECURITY_GROUP, SECURITY_GROUP_INGRESS, SECURITY_GROUP_EGRESS),
    settings=EfaCompleteSettings,
    fleet_field="cloud",
    passes=_example(2),
    fails=_example(1),
)
def efa_complete(stack: Stack, context: RuleContext[EfaCompleteSettings]) -> Iterator[Violation]:
    """Check groups of several nodes that have EFA or whose workload needs it."""
    groups: frozenset[str] | None = None
    for launch in launches(stack):
        if launch.resource.type in (INSTANCE, SPOT_INSTANCE_REQUEST):
            continue
        if launch.maximum is not UNKNOWN and launch.maximum < context.settings.nodes:
            continue
        wanted = workload_of(launch.resource, context.shared.plan) in context.settings.workloads
        efa = any(has_efa(template) for template in launch.templates)
        if not wanted and not efa:
            continue
        if launch.unclear:
            yield _violation(
                launch.resource,
                f"its EFA interfaces are not known: {launch.unclear}",
                "keep the launch template in this stack and launch its newest version",
                "launchTemplate",
                unknown=True,
            )
            continue
        able = _layouts(launch, context)
        if efa or able:
            yield from _interfaces(launch, able)
        if efa:
            groups = self_referring(stack) if groups is None else groups
            yield from _security(stack, launch, groups)
            yield from _zone(stack, launch)


def _layouts(launch: Launch, context: RuleContext[EfaCompleteSettings]) -> dict[str, frozenset[Slot]]:
    """Return the layout of each type that has EFA."""
    known = context.shared.catalog.instances
    return {
        name: frozenset(
            (each.network_card_index, each.device_index, each.interface_type)
            for each in efa_layout(known[name])
        )
        for name in launch.types.names
        if name in known and known[name].efa
    }


def _interfaces(launch: Launch, able: dict[str, frozenset[Slot]]) -> Iterator[Violation]:
    without = [name for name in launch.types.names if name not in able]
    if without or launch.types.unclear:
        yield _violation(
            launch.resource,
            f"{launch.types.unclear or ', '.join(without) + ' has no EFA'}, and its launch template has",
            "use types with EFA and one layout, or `network: ena`",
            "instanceTypes",
            unknown=bool(launch.types.unclear),
        )
    if not launch.templates:
        yield _violation(
            launch.resource,
            f"it has no launch template, which the EFA interfaces of {', '.join(able)} need",
            "add a launch template with the type's network interfaces",
            "launchTemplate",
        )
    for template in launch.templates:
        if template.ignores("networkInterfaces"):
            yield _violation(
                template,
                "changes of networkInterfaces are ignored, so the running nodes may differ",
                "leave networkInterfaces out of ignoreChanges",
                "networkInterfaces",
                unknown=True,
            )
        slots = _slots(template)
        for name, layout in able.items():
            if slots is None:
                yield _violation(
                    template,
                    "networkInterfaces are not known yet",
                    f"write the {len(layout)} of {name}",
                    "networkInterfaces",
                    unknown=True,
                )
            elif slots != sorted(layout):
                yield _violation(template, *_difference(name, slots, layout), "networkInterfaces")


def _slots(template: Resource) -> list[Slot] | None:
    found: list[Slot] = []
    for _, item in template.items("networkInterfaces"):
        if not isinstance(item, dict):
            return None
        slot = (
            item.get("networkCardIndex", 0),
            item.get("deviceIndex", 0),
            item.get("interfaceType", "interface"),
        )
        if UNKNOWN in slot:
            return None
        found.append(slot)
    return sorted(found)


def _difference(name: str, slots: list[Slot], layout: frozenset[Slot]) -> tuple[str, str]:
    have = sum(1 for slot in slots if slot[2] in EFA_TYPES)
    want = sum(1 for slot in layout if slot[2] in EFA_TYPES)
    missing = sorted(layout - set(slots))
    extra = sorted(set(slots) - layout)
    detail = [f"card {card} device {device} {kind} missing" for card, device, kind in missing[:2]]
    detail += [f"card {card} device {device} {kind} too many" for card, device, kind in extra[:2]]
    what = "; ".join(detail) or "one is declared twice"
    return (
        f"networkInterfaces have {have} EFA interfaces, and {name} has {want} ({what})",
        "write `network: efa`, or the layout of `gpufleet catalog instances`",
    )


def _security(stack: Stack, launch: Launch, groups: frozenset[str]) -> Iterator[Violation]:
    for template in launch.templates:
        interfaces = [item for _, item in template.items("networkInterfaces") if isinstance(item, dict)]
        lists = [item.get("securityGroups") for item in interfaces]
        if any(each != lists[0] for each in lists[1:]):
            yield _violation(
                template,
                "the interfaces are in different security groups",
                "put all of them into the same group: EFA peers reach any of them",
                "networkInterfaces",
            )
        named = stack.references(template, "networkInterfaces", types=(SECURITY_GROUP,))
        ids = {value for each in lists if isinstance(each, (list, tuple)) for value in each}
        named += [each for each in stack.of_type(SECURITY_GROUP) if each.get("id") in ids - {UNKNOWN}]
        if not any(each.urn in groups for each in named):
            yield _violation(
                template,
                "no security group of its interfaces allows all protocols between its members",
                "add a group with a rule from itself and one to itself, for all protocols (-1)",
                "networkInterfaces[0].securityGroups",
                unknown=not named,
            )


def _zone(stack: Stack, launch: Launch) -> Iterator[Violation]:
    found = reservations(stack)
    use = found.use(launch)
    if uses_block(launch, use) or use.targeted:
        # A reservation is in one zone, whichever it is.
        return
    zones = found.zones[launch.resource.urn]
    if zones is UNKNOWN:
        text = "the zone of its subnets is not known"
    elif len(zones) > 1:
        text = f"its subnets are in {', '.join(sorted(zones))}"
    else:
        return
    yield _violation(
        launch.resource,
        f"{text}, and EFA does not cross zones",
        "use subnets of one zone, such as `zones: [us-east-1a]`",
        "subnetIds" if launch.resource.type == NODE_GROUP else "vpcZoneIdentifiers",
        unknown=zones is UNKNOWN,
    )


def _violation(
    resource: Resource, message: str, remedy: str, prop: str, *, unknown: bool = False
) -> Violation:
    return Violation(message, remedy, urn=resource.urn, prop=prop, unknown=unknown)
