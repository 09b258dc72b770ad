"""EFA interfaces of launch templates, and the security group that EFA traffic needs."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.resources.launches import declared
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    SECURITY_GROUP,
    SECURITY_GROUP_EGRESS,
    SECURITY_GROUP_INGRESS,
    SECURITY_GROUP_RULE,
)

EFA_TYPES = frozenset({"efa", "efa-only"})


def has_efa(template: Resource) -> bool:
    """Return whether a launch template has or may have an EFA interface."""
    interfaces = template.get("networkInterfaces")
    if not isinstance(interfaces, (list, tuple)):
        return interfaces is UNKNOWN
    return any(
        each is UNKNOWN
        or (isinstance(each, dict) and str(each.get("interfaceType")).lower() in EFA_TYPES)
        or (isinstance(each, dict) and each.get("interfaceType") is UNKNOWN)
        for each in interfaces
    )


def self_referring(stack: Stack) -> frozenset[str]:
    """Return the URNs of the security groups that allow all traffic between their members, both ways.

    EFA traffic is neither TCP nor UDP: it needs a rule for all protocols from and to the group itself
    (EC2 User Guide, "Get started with EFA", an EFA-enabled security group).
    """
    inward, outward = (
        set(_separate_rules(stack, SECURITY_GROUP_INGRESS)),
        set(_separate_rules(stack, SECURITY_GROUP_EGRESS)),
    )
    for rule in stack.of_type(SECURITY_GROUP_RULE):
        own = declared(rule)
        if _all_protocols(own.get("protocol")):
            groups = stack.references(rule, "securityGroupId", types=(SECURITY_GROUP,))
            sources = stack.references(rule, "sourceSecurityGroupId", types=(SECURITY_GROUP,))
            for group in groups:
                if own.get("self") is True or group in sources:
                    (inward if own.get("type") == "ingress" else outward).add(group.urn)
    for group in stack.of_type(SECURITY_GROUP):
        for prop, into in (("ingress", inward), ("egress", outward)):
            for _, item in declared(group).items(prop):
                if (
                    isinstance(item, dict)
                    and item.get("self") is True
                    and _all_protocols(item.get("protocol"))
                ):
                    into.add(group.urn)
    return frozenset(inward & outward)


def _separate_rules(stack: Stack, kind: str) -> Iterator[str]:
    for rule in stack.of_type(kind):
        own = declared(rule)
        if not _all_protocols(own.get("ipProtocol")):
            continue
        groups = stack.references(rule, "securityGroupId", types=(SECURITY_GROUP,))
        others = stack.references(rule, "referencedSecurityGroupId", types=(SECURITY_GROUP,))
        named = own.get("securityGroupId"), own.get("referencedSecurityGroupId")
        yield from (group.urn for group in groups if group in others)
        if isinstance(named[0], str) and named[0] == named[1]:
            yield from (each.urn for each in stack.of_type(SECURITY_GROUP) if each.get("id") == named[0])


def _all_protocols(value: object) -> bool:
    return str(value) in ("-1", "all")
