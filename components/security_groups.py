"""The security groups of a GPU network, with every rule as a separate resource.

Separate rules change one at a time and do not conflict with inline rules.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component, available_after


def closed_default_group(component: Component, name: str, vpc_id: pulumi.Output[str]) -> None:
    """Take over the VPC's default group and remove all its rules, so that nothing can rely on it."""
    aws.ec2.DefaultSecurityGroup(
        f"{name}-default",
        vpc_id=vpc_id,
        tags=component.tags(f"{name}-default-closed"),
        opts=component.child(),
    )


def efa_group(component: Component, name: str, vpc_id: pulumi.Output[str]) -> pulumi.Output[str]:
    """Create a group that allows all traffic between its members, both ways, and nothing else.

    Its id is known once its rules exist: FSx checks them when it creates a file system with EFA.

    EFA traffic is neither TCP nor UDP, and without the egress rule to the group itself the devices start
    but cannot reach each other.
    """
    label = f"{name}-efa"
    group = aws.ec2.SecurityGroup(
        label,
        description="EFA: all traffic among members",
        vpc_id=vpc_id,
        tags=component.tags(label),
        opts=component.child(),
    )
    return available_after(group.id, _among_members(component, label, group))


def node_group_rules(
    component: Component, name: str, vpc_id: pulumi.Output[str], cidr: str
) -> pulumi.Output[str]:
    """Create the group of nodes outside EKS: all traffic between members, HTTP(S) out, all to this network.

    Plain HTTP is for distribution package mirrors, which sign their packages. DNS and time come from
    link-local addresses, which security groups do not filter.
    """
    label = f"{name}-nodes"
    group = aws.ec2.SecurityGroup(
        label,
        description="Nodes: all traffic among members, HTTP and HTTPS out",
        vpc_id=vpc_id,
        tags=component.tags(label),
        opts=component.child(),
    )
    _among_members(component, label, group)
    aws.vpc.SecurityGroupEgressRule(
        f"{label}-out-network",
        security_group_id=group.id,
        description="Any traffic to this network",
        ip_protocol="-1",
        cidr_ipv4=cidr,
        tags=component.tags(f"{label}-out-network"),
        opts=component.child(),
    )
    for protocol, port in (("https", 443), ("http", 80)):
        aws.vpc.SecurityGroupEgressRule(
            f"{label}-out-{protocol}",
            security_group_id=group.id,
            description=f"{protocol.upper()} to services and package mirrors",
            ip_protocol="tcp",
            from_port=port,
            to_port=port,
            cidr_ipv4="0.0.0.0/0",
            tags=component.tags(f"{label}-out-{protocol}"),
            opts=component.child(),
        )
    group_id: pulumi.Output[str] = group.id
    return group_id


def _among_members(component: Component, label: str, group: aws.ec2.SecurityGroup) -> list[pulumi.Resource]:
    inward = aws.vpc.SecurityGroupIngressRule(
        f"{label}-in-members",
        security_group_id=group.id,
        description="Any traffic from members",
        ip_protocol="-1",
        referenced_security_group_id=group.id,
        tags=component.tags(f"{label}-in-members"),
        opts=component.child(),
    )
    outward = aws.vpc.SecurityGroupEgressRule(
        f"{label}-out-members",
        security_group_id=group.id,
        description="Any traffic to members",
        ip_protocol="-1",
        referenced_security_group_id=group.id,
        tags=component.tags(f"{label}-out-members"),
        opts=component.child(),
    )
    return [inward, outward]
