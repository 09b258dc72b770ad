"""Nodes have no public address unless the fleet file requests one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import ignored, is_off
from gpufleet.policies.rules.security._routes import TYPES as ROUTED
from gpufleet.policies.rules.security._routes import places_of, public_places
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, Launch, declared, launches, tags_of
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    BATCH,
    INSTANCE,
    LAUNCH_CONFIGURATION,
    LAUNCH_TEMPLATE,
    NODE_CLASS,
    NODE_GROUP,
    SPOT_FLEET,
    SPOT_INSTANCE_REQUEST,
    SUBNET,
)

DEFAULT_SUBNET = "aws:ec2/defaultSubnet:DefaultSubnet"
ADDRESS = "aws:ec2/eip:Eip"
ASSOCIATION = "aws:ec2/eipAssociation:EipAssociation"
MACHINES = (INSTANCE, SPOT_INSTANCE_REQUEST, LAUNCH_CONFIGURATION)
FLAG = "associatePublicIpAddress"


@stack_rule(
    "no-public-ip",
    group="security",
    title="Nodes have no public address",
    why="With a public address, one wrong security group exposes a node to the internet. Nodes reach the "
    "internet through NAT: a subnet with a route to an internet gateway is for gateways and load balancers. "
    "Without a subnet, a node is in the account's default network, which is public. "
    "EC2 gives no public address to an instance with several interfaces anyway.",
    fix="Leave `associatePublicIpAddress` and `mapPublicIpOnLaunch` false. For a node group that needs an "
    "address, set `node_groups[].public_ip` in the fleet file.",
    severity="high",
    framework=fsbp("EC2.9"),
    types=(*MACHINES, *LAUNCHERS, NODE_CLASS, SUBNET, DEFAULT_SUBNET, ADDRESS, ASSOCIATION, *ROUTED),
    fleet_field="cloud",
    passes=Example(({"type": SUBNET, "props": {"mapPublicIpOnLaunch": False}},)),
    fails=Example(({"type": SUBNET, "props": {"mapPublicIpOnLaunch": True}},)),
)
def no_public_ip(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check launch templates, instances, subnets, addresses of instances, and routes of their subnets."""
    plan = context.shared.plan
    asked = {(each.site, each.name) for each in plan.node_groups if each.public_ip} if plan else set()
    for template in map(declared, stack.of_type(LAUNCH_TEMPLATE)):
        if not _asked(template, asked):
            paths = [f"{path}.{FLAG}" for path, _ in template.items("networkInterfaces")]
            yield from _off(template, paths)
            for path, _ in template.items("networkInterfaces"):
                if template.get(f"{path}.associateCarrierIpAddress") is not None:
                    yield from _off(template, [f"{path}.associateCarrierIpAddress"])
    for node_class in map(declared, stack.of_type(NODE_CLASS)):
        # EC2 refuses the flag for an instance with several interfaces, and gives it no public address.
        several = len(list(node_class.items("spec.networkInterfaces"))) > 1
        launched = replace(node_class, props={"tags": node_class.get("spec.tags")})
        if not several and not _asked(launched, asked):
            yield from _off(node_class, ["spec.associatePublicIPAddress"], unset=False)
    own = {each.get("id") for each in stack.of_type(SUBNET, DEFAULT_SUBNET)}
    for machine in map(declared, stack.of_type(*MACHINES)):
        subnet = machine.get("subnetId")
        # A subnet of the stack gives no address; one outside may.
        yield from _off(machine, [FLAG], unset=not isinstance(subnet, str) or subnet in own)
    for launch in launches(stack):
        if _in_default_network(launch) and not _asked(launch.resource, asked):
            yield Violation(
                "no subnet is set, so the node starts in the account's default network, which gives it a "
                "public address, and nodes must have none",
                "launch the nodes in private subnets",
                urn=launch.resource.urn,
                prop=next(places_of(launch.resource), FLAG),
            )
    for fleet in map(declared, stack.of_type(SPOT_FLEET)):
        yield from _off(fleet, [f"{path}.{FLAG}" for path, _ in fleet.items("launchSpecifications")])
    for subnet in map(declared, stack.of_type(SUBNET, DEFAULT_SUBNET)):
        yield from _off(subnet, ["mapPublicIpOnLaunch"], unset=subnet.type == SUBNET)
    for address in map(declared, stack.of_type(ADDRESS, ASSOCIATION)):
        for prop in _HOLDERS:
            if address.get(prop) is not None:
                yield _violation(address, prop, "nodes must have no public address")
    for place in public_places(stack):
        if not _asked(place.launcher, asked):
            yield Violation(
                f"{place.prop} is {place.launcher.show(place.prop)}, with a subnet that {place.route.name} "
                "routes to an internet gateway, and nodes must reach the internet through NAT",
                "launch the nodes in private subnets",
                urn=place.launcher.urn,
                prop=place.prop,
            )


_HOLDERS = (
    *("instance", "instanceId", "networkInterface", "networkInterfaceId"),
    *("associateWithPrivateIp", "privateIpAddress"),
)
_PLACED = ("networkInterfaces", "primaryNetworkInterface")


def _in_default_network(launch: Launch) -> bool:
    """Return whether neither a launcher nor its templates name a subnet, an interface or no public address.

    Node groups and batch environments always name subnets; a template outside the stack is not known.
    """
    launcher = launch.resource
    if launcher.type in (NODE_GROUP, BATCH) or launch.unclear:
        return False
    if any(launcher.get(each) is not None for each in _PLACED):
        return False
    parts = [launcher, *launch.templates]
    if any(part.get(path) is not None for part in parts for path in places_of(part)):
        return False
    flags = [f"{path}.{FLAG}" for part in launch.templates for path, _ in part.items("networkInterfaces")]
    return not any(is_off(part.get(flag)) for part in parts for flag in (FLAG, *flags))


def _asked(template: Resource, asked: set[tuple[str, str]]) -> bool:
    tags = tags_of(template)
    return (str(tags.get("gpufleet:site")), str(tags.get("gpufleet:node-group"))) in asked


def _off(resource: Resource, paths: Sequence[str], *, unset: bool = True) -> Iterator[Violation]:
    """Report paths that are not false. `unset`: a property that is not set counts as false."""
    for path in paths:
        value = resource.get(path)
        if not (is_off(value) or (value is None and unset)):
            yield _violation(resource, path, "nodes must have no public address")
        elif resource.ignores(path):
            yield ignored(resource, path, "nodes must have no public address")


def _violation(resource: Resource, path: str, rule: str) -> Violation:
    return Violation(
        f"{path} is {resource.show(path)}, and {rule}",
        "set it to false, or request a public address in the fleet file (node_groups[].public_ip)",
        urn=resource.urn,
        prop=path,
        unknown=is_unknown(resource.get(path)),
    )
