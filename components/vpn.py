"""The virtual private gateway of a VPC, and a site-to-site VPN between it and a router elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component, Tags, encryption_key, logs_may_use_key
from gpufleet.kinds import VPN_AMAZON_ASN, VPN_ASN

LONGEST_SHORT_ASN = 2**31 - 1
"""EC2 takes larger BGP numbers in another field (CreateCustomerGateway, BgpAsn and BgpAsnExtended)."""

ENCRYPTION = ("AES256", "AES256-GCM-16")
INTEGRITY = ("SHA2-256", "SHA2-384", "SHA2-512")
DH_GROUPS = (15, 16, 19, 20, 21)
"""Algorithms with 128 bits of security or more, of those that AWS offers (Site-to-Site VPN User Guide,
"Tunnel options"; NIST SP 800-57 part 1, table 2). AWS's defaults also accept SHA-1 and 1024-bit keys."""


@dataclass(frozen=True, kw_only=True)
class SiteVpnArgs:
    """Inputs of `SiteVpn`.

    `gateway` is the public IPv4 address of the router, `asn` its BGP number, `amazon_asn` that of AWS's side.
    Without `gateway` there is no VPN: only the virtual private gateway, which Direct Connect uses as well.
    `route_table_ids` are the tables of the VPC that take its routes, by a name of each. With `static`, those
    of the VPN lead to `networks` (CIDRs); else the router announces them by BGP. With `log_retention_days`,
    the tunnels write logs, which are kept for so long.
    """

    vpc_id: pulumi.Input[str]
    route_table_ids: Mapping[str, pulumi.Input[str]]
    gateway: str | None
    asn: int = VPN_ASN
    amazon_asn: int = VPN_AMAZON_ASN
    networks: Sequence[str] = ()
    static: bool = False
    log_retention_days: int | None = None
    tags: Tags


class SiteVpn(Component):
    """A virtual private gateway, whose routes the VPC takes, and two IPsec tunnels (IKEv2) between it and a
    router, with routes by BGP or static ones.

    AWS makes the pre-shared keys. They are secrets of the state and no outputs; the router's administrator
    gets them with the configuration from AWS.
    """

    vpn_gateway_id: pulumi.Output[str]
    vpn_connection_id: pulumi.Output[str] | None
    """None without a VPN, as `customer_gateway_id`."""
    customer_gateway_id: pulumi.Output[str] | None
    tunnel_addresses: Sequence[pulumi.Output[str]]
    """AWS's public addresses of the two tunnels; empty without a VPN."""
    log_group: str | None
    """The name of the log group of the tunnels; None without logs."""

    def __init__(self, name: str, args: SiteVpnArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpufleet:network:SiteVpn", name, args.tags, opts)
        label = f"{name}-vpn"
        gateway = aws.ec2.VpnGateway(
            label,
            vpc_id=args.vpc_id,
            amazon_side_asn=str(args.amazon_asn),
            tags=self.tags(label),
            opts=self.child(),
        )
        for table, table_id in args.route_table_ids.items():
            aws.ec2.VpnGatewayRoutePropagation(
                f"{label}-{table}", vpn_gateway_id=gateway.id, route_table_id=table_id, opts=self.child()
            )
        self.vpn_gateway_id = gateway.id
        outputs: dict[str, Any] = {"vpnGatewayId": gateway.id}
        self.log_group = None
        if args.gateway is None:
            self.vpn_connection_id = self.customer_gateway_id = None
            self.tunnel_addresses = ()
        else:
            logs = self._logs(name, args.log_retention_days) if args.log_retention_days else None
            router, connection = self._connection(label, args, args.gateway, gateway.id, logs)
            self.vpn_connection_id, self.customer_gateway_id = connection.id, router.id
            self.tunnel_addresses = (connection.tunnel1_address, connection.tunnel2_address)
            outputs |= {
                "vpnConnectionId": connection.id,
                "customerGatewayId": router.id,
                "tunnelAddresses": list(self.tunnel_addresses),
            }
        self.register_outputs(outputs)

    def _logs(self, name: str, retention_days: int) -> aws.cloudwatch.LogGroup:
        label, context = f"{name}-vpn-logs", self.aws_context()
        # The prefix keeps the account's resource policy for deliveries short (CloudWatch Logs User Guide,
        # "Enable logging from AWS services"); the key's policy allows this one group.
        self.log_group = f"/aws/vendedlogs/gpufleet/{name}/vpn"
        key = encryption_key(
            self,
            label,
            f"Logs of the VPN of {name}",
            context,
            services=[logs_may_use_key(context, self.log_group)],
        )
        return aws.cloudwatch.LogGroup(
            label,
            name=self.log_group,
            retention_in_days=retention_days,
            kms_key_id=key.arn,
            tags=self.tags(label),
            opts=self.child(),
        )

    def _connection(
        self,
        label: str,
        args: SiteVpnArgs,
        address: str,
        vpn_gateway_id: pulumi.Output[str],
        logs: aws.cloudwatch.LogGroup | None,
    ) -> tuple[aws.ec2.CustomerGateway, aws.ec2.VpnConnection]:
        long = args.asn > LONGEST_SHORT_ASN
        router = aws.ec2.CustomerGateway(
            label,
            type="ipsec.1",
            ip_address=address,
            bgp_asn=None if long else str(args.asn),
            bgp_asn_extended=str(args.asn) if long else None,
            tags=self.tags(label),
            opts=self.child(),
        )
        connection = aws.ec2.VpnConnection(
            label,
            type="ipsec.1",
            customer_gateway_id=router.id,
            vpn_gateway_id=vpn_gateway_id,
            static_routes_only=args.static,
            **_tunnel_options(),
            **_log_options(logs, bgp=not args.static),
            tags=self.tags(label),
            # A region takes one connection to an address of a router.
            opts=self.child(delete_before_replace=True),
        )
        for network in args.networks if args.static else ():
            aws.ec2.VpnConnectionRoute(
                f"{label}-{network}",
                vpn_connection_id=connection.id,
                destination_cidr_block=network,
                opts=self.child(),
            )
        return router, connection


def _tunnel_options() -> dict[str, Any]:
    """Return the options of both tunnels: IKEv2, strong algorithms, and AWS starts and restarts them."""
    options = {
        "ike_versions": ["ikev2"],
        "phase1_encryption_algorithms": list(ENCRYPTION),
        "phase2_encryption_algorithms": list(ENCRYPTION),
        "phase1_integrity_algorithms": list(INTEGRITY),
        "phase2_integrity_algorithms": list(INTEGRITY),
        "phase1_dh_group_numbers": list(DH_GROUPS),
        "phase2_dh_group_numbers": list(DH_GROUPS),
        "startup_action": "start",
        "dpd_timeout_action": "restart",
    }
    return {f"tunnel{number}_{key}": value for number in (1, 2) for key, value in options.items()}


def _log_options(group: aws.cloudwatch.LogGroup | None, *, bgp: bool) -> dict[str, Any]:
    """Return the log options of both tunnels. Without a group they turn logs off: a missing option keeps
    what AWS has."""
    options: dict[str, Any] = {"log_enabled": group is not None}
    if group is not None:
        options |= {"log_group_arn": group.arn, "log_output_format": "json"}
        if bgp:
            options |= {
                "bgp_log_enabled": True,
                "bgp_log_group_arn": group.arn,
                "bgp_log_output_format": "json",
            }
    return {f"tunnel{number}_log_options": {"cloudwatch_log_options": options} for number in (1, 2)}
