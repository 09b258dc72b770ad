"""Zonal resources are in the environment's zones, and subnets belong to this stack."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.capacity._regions import site_zones
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BATCH,
    BLOCK_OFFERING,
    CAPACITY_RESERVATION,
    CLUSTER,
    FLEET,
    INSTANCE,
    LAUNCH_TEMPLATE,
    LUSTRE,
    NODE_GROUP,
    SPOT_FLEET,
    SPOT_INSTANCE_REQUEST,
    SUBNET,
    VOLUME,
)

ZONES = {
    SUBNET: ("availabilityZone", "availabilityZoneId"),
    INSTANCE: ("availabilityZone",),
    SPOT_INSTANCE_REQUEST: ("availabilityZone",),
    AUTO_SCALING_GROUP: ("availabilityZones",),
    CAPACITY_RESERVATION: ("availabilityZone",),
    VOLUME: ("availabilityZone",),
    LAUNCH_TEMPLATE: ("placement.availabilityZone",),
    BLOCK_OFFERING: ("zones",),
    "aws:ec2/dedicatedHost:DedicatedHost": ("availabilityZone",),
    "aws:ec2/defaultSubnet:DefaultSubnet": ("availabilityZone",),
}
OVERRIDES = {FLEET: "launchTemplateConfigs", SPOT_FLEET: "launchTemplateConfigs"}
SUBNETS = {
    NODE_GROUP: ("subnetIds",),
    AUTO_SCALING_GROUP: ("vpcZoneIdentifiers",),
    INSTANCE: ("subnetId",),
    SPOT_INSTANCE_REQUEST: ("subnetId",),
    LUSTRE: ("subnetIds",),
    CLUSTER: ("vpcConfig",),
    BATCH: ("computeResources",),
}
_NEEDS_ZONE = frozenset({SUBNET, CAPACITY_RESERVATION, VOLUME})


class AllowedZonesSettings(Settings):
    """Which zones may be used."""

    zones: tuple[str, ...] = Field(
        (), description="Allowed zones (names or ids); those of the fleet's sites if not set"
    )
    subnets: tuple[str, ...] = Field((), description="Ids of subnets outside this stack that may be used")


@stack_rule(
    "allowed-zones",
    group="capacity",
    title="The environment allows the zones",
    why="EFA, placement groups, reservations and disks do not cross zones. Resources in another zone are "
    "paid for and cannot be used, or cause traffic charges between zones.",
    fix="Use a zone of the fleet's sites and the subnets that this stack creates there.",
    severity="medium",
    types=(*ZONES, *SUBNETS, *OVERRIDES),
    settings=AllowedZonesSettings,
    fleet_field="cloud",
    passes=Example(
        ({"type": SUBNET, "props": {"availabilityZone": "us-east-1a"}},),
        settings={"zones": ["us-east-1a"]},
    ),
    fails=Example(
        ({"type": SUBNET, "props": {"availabilityZone": "us-east-1e"}},),
        settings={"zones": ["us-east-1a"]},
    ),
)
def allowed_zones(stack: Stack, context: RuleContext[AllowedZonesSettings]) -> Iterator[Violation]:
    """Check zones, and subnets outside this stack."""
    allowed = frozenset(context.settings.zones or site_zones(context.shared))
    known_subnets = frozenset(
        value for subnet in stack.of_type(SUBNET) if isinstance(value := subnet.get("id"), str)
    ) | frozenset(context.settings.subnets)
    for original in stack.of_type(*ZONES):
        resource = declared(original)
        found = [(path, value) for prop in ZONES[resource.type] for path, value in resource.items(prop)]
        yield from _check(resource, found, allowed)
        if not found and resource.type in _NEEDS_ZONE:
            yield Violation(
                "availabilityZone is not set: AWS chooses one",
                f"write one of {', '.join(sorted(allowed))}",
                urn=resource.urn,
                prop="availabilityZone",
                unknown=True,
            )
    for original in stack.of_type(*OVERRIDES):
        resource = declared(original)
        for path, config in resource.items(OVERRIDES[resource.type]):
            if isinstance(config, dict):
                for where, override in resource.items(f"{path}.overrides"):
                    zone = override.get("availabilityZone") if isinstance(override, dict) else override
                    if zone is not None:
                        yield from _check(resource, [(f"{where}.availabilityZone", zone)], allowed)
    for original in stack.of_type(*SUBNETS):
        yield from _foreign_subnets(stack, declared(original), known_subnets)


def _check(
    resource: Resource, found: list[tuple[str, object]], allowed: frozenset[str]
) -> Iterator[Violation]:
    zones = ", ".join(sorted(allowed)) or "no zone"
    for path, value in found:
        if value in allowed:
            continue
        yield Violation(
            f"{path} is {resource.show(path)}, and only {zones} may be used",
            "use a zone of the fleet's sites, or add this one to the site's `zones`",
            urn=resource.urn,
            prop=path,
            unknown=is_unknown(value),
        )


def _foreign_subnets(stack: Stack, resource: Resource, known: frozenset[str]) -> Iterator[Violation]:
    for prop in SUBNETS[resource.type]:
        value = resource.get(prop)
        if value is None:
            continue
        inside = bool(stack.references(resource, prop, types=(SUBNET,)))
        path = {CLUSTER: "vpcConfig.subnetIds", BATCH: "computeResources.subnets"}.get(resource.type, prop)
        for where, subnet in resource.items(path):
            if subnet in known or (is_unknown(subnet) and inside):
                continue
            yield Violation(
                f"{where} is {resource.show(where)}, which is not known to be in an allowed zone",
                "use a subnet of this stack, or add it to `policies.allowed-zones.settings.subnets`",
                urn=resource.urn,
                prop=where,
                unknown=is_unknown(subnet),
            )
