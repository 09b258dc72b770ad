"""Endpoints of Route 53 Resolver in a VPC: DNS between its names and those of another network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component, Tags

DNS_PORT = 53
LONGEST_NAME = 64
"""Names of Resolver's resources (Route 53 API reference, CreateResolverRule)."""


@dataclass(frozen=True, kw_only=True)
class SiteDnsArgs:
    """Inputs of `SiteDns`.

    `subnet_ids` are two subnets, which each endpoint has an address in. `forward` are the addresses of DNS
    servers by the domain whose names they answer. With `inbound`, `networks` (CIDRs) may query the names
    that resolve in the VPC.
    """

    vpc_id: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    forward: Mapping[str, Sequence[str]]
    inbound: bool = False
    networks: Sequence[str] = ()
    tags: Tags


class SiteDns(Component):
    """An outbound endpoint with a rule for each domain, and an inbound one. Their security groups allow DNS
    (UDP and TCP 53): from `networks`, and to the servers."""

    inbound_endpoint_id: pulumi.Output[str] | None
    outbound_endpoint_id: pulumi.Output[str] | None
    inbound_addresses: pulumi.Output[list[str]] | None
    """Addresses in the VPC to which DNS servers of the other network forward. Each is None without its
    endpoint."""

    def __init__(self, name: str, args: SiteDnsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpufleet:network:SiteDns", name, args.tags, opts)
        label = f"{name}-dns"
        self.inbound_endpoint_id = self.outbound_endpoint_id = self.inbound_addresses = None
        if args.inbound:
            inbound = self._inbound(f"{label}-inbound", args)
            self.inbound_endpoint_id = inbound.id
            # A preview may lack them: AWS chooses them.
            self.inbound_addresses = inbound.ip_addresses.apply(
                lambda found: sorted(str(each["ip"]) for each in found if each.get("ip"))
            )
        if args.forward:
            self.outbound_endpoint_id = self._outbound(f"{label}-outbound", args)
            for domain, servers in args.forward.items():
                self._rule(f"{label}-{domain}", args, domain, servers)
        self.register_outputs(
            {
                "inboundEndpointId": self.inbound_endpoint_id,
                "inboundAddresses": self.inbound_addresses,
                "outboundEndpointId": self.outbound_endpoint_id,
            }
        )

    def _inbound(self, label: str, args: SiteDnsArgs) -> aws.route53.ResolverEndpoint:
        group = self._group(label, args, "Resolver endpoint: DNS queries from the racks")
        for network in args.networks:
            for protocol in ("udp", "tcp"):
                name = f"{label}-{protocol}-{network}"
                aws.vpc.SecurityGroupIngressRule(
                    name,
                    security_group_id=group.id,
                    description="DNS from the racks",
                    ip_protocol=protocol,
                    from_port=DNS_PORT,
                    to_port=DNS_PORT,
                    cidr_ipv4=network,
                    tags=self.tags(name),
                    opts=self.child(),
                )
        return self._endpoint(label, args, "INBOUND", group)

    def _outbound(self, label: str, args: SiteDnsArgs) -> pulumi.Output[str]:
        group = self._group(label, args, "Resolver endpoint: DNS queries to the racks")
        for server in dict.fromkeys(each for servers in args.forward.values() for each in servers):
            for protocol in ("udp", "tcp"):
                name = f"{label}-{protocol}-{server}"
                aws.vpc.SecurityGroupEgressRule(
                    name,
                    security_group_id=group.id,
                    description="DNS to the racks",
                    ip_protocol=protocol,
                    from_port=DNS_PORT,
                    to_port=DNS_PORT,
                    cidr_ipv4=f"{server}/32",
                    tags=self.tags(name),
                    opts=self.child(),
                )
        made: pulumi.Output[str] = self._endpoint(label, args, "OUTBOUND", group).id
        return made

    def _group(self, label: str, args: SiteDnsArgs, description: str) -> aws.ec2.SecurityGroup:
        return aws.ec2.SecurityGroup(
            label, description=description, vpc_id=args.vpc_id, tags=self.tags(label), opts=self.child()
        )

    def _endpoint(
        self, label: str, args: SiteDnsArgs, direction: str, group: aws.ec2.SecurityGroup
    ) -> aws.route53.ResolverEndpoint:
        return aws.route53.ResolverEndpoint(
            label,
            name=label[:LONGEST_NAME],
            direction=direction,
            resolver_endpoint_type="IPV4",
            protocols=["Do53"],
            security_group_ids=[group.id],
            ip_addresses=[
                aws.route53.ResolverEndpointIpAddressArgs(subnet_id=subnet) for subnet in args.subnet_ids
            ],
            tags=self.tags(label),
            opts=self.child(),
        )

    def _rule(self, label: str, args: SiteDnsArgs, domain: str, servers: Sequence[str]) -> None:
        # Resolver takes no dots in names, and they need not be unique.
        physical = label.replace(".", "-")[:LONGEST_NAME]
        rule = aws.route53.ResolverRule(
            label,
            name=physical,
            rule_type="FORWARD",
            domain_name=domain,
            resolver_endpoint_id=self.outbound_endpoint_id,
            target_ips=[aws.route53.ResolverRuleTargetIpArgs(ip=server, port=DNS_PORT) for server in servers],
            tags=self.tags(label),
            opts=self.child(),
        )
        aws.route53.ResolverRuleAssociation(
            label,
            name=physical,
            resolver_rule_id=rule.id,
            vpc_id=args.vpc_id,
            opts=self.child(),
        )
