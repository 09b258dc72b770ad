"""The connections of a cloud site to the racks: site-to-site VPN, Direct Connect, and DNS over them."""

from __future__ import annotations

from typing import Any

import pulumi

from gpufleet.components.direct_connect import DirectConnect, DirectConnectArgs
from gpufleet.components.dns import SiteDns, SiteDnsArgs
from gpufleet.components.network import Network
from gpufleet.components.vpn import SiteVpn, SiteVpnArgs
from gpufleet.kinds import DNS_ADDRESSES, VPN_AMAZON_ASN, VPN_ASN
from gpufleet.plan.models import CloudSitePlan

Outputs = dict[str, Any] | None


def build_connections(
    name: str, site: CloudSitePlan, network: Network, opts: pulumi.ResourceOptions
) -> dict[str, Outputs]:
    """Create the VPN and the Direct Connect of a site, which have one virtual private gateway, and return the
    outputs of each; None for what the site lacks."""
    plan, direct = site.vpn, site.direct_connect
    if plan is None and direct is None:
        return {"vpn": None, "direct_connect": None}
    vpn = SiteVpn(
        name,
        SiteVpnArgs(
            vpc_id=network.vpc_id,
            route_table_ids=network.route_table_ids,
            gateway=plan.gateway if plan else None,
            asn=plan.asn if plan else VPN_ASN,
            amazon_asn=plan.amazon_asn if plan else VPN_AMAZON_ASN,
            networks=plan.networks if plan else (),
            static=plan.static if plan else False,
            log_retention_days=site.vpn_logs.retention_days if site.vpn_logs else None,
            tags=site.tags,
        ),
        opts,
    )
    return {
        "vpn": _vpn_outputs(vpn) if plan else None,
        "direct_connect": _direct_connect(name, site, vpn, opts),
    }


def _vpn_outputs(vpn: SiteVpn) -> Outputs:
    return {
        "vpn_connection_id": vpn.vpn_connection_id,
        "customer_gateway_id": vpn.customer_gateway_id,
        "vpn_gateway_id": vpn.vpn_gateway_id,
        "tunnel_addresses": list(vpn.tunnel_addresses),
        "log_group": vpn.log_group,
    }


def _direct_connect(name: str, site: CloudSitePlan, vpn: SiteVpn, opts: pulumi.ResourceOptions) -> Outputs:
    plan = site.direct_connect
    if plan is None:
        return None
    made = DirectConnect(
        name,
        DirectConnectArgs(
            gateway=plan.gateway,
            owner=plan.owner,
            vpn_gateway_id=vpn.vpn_gateway_id,
            cidr=site.cidr,
            tags=site.tags,
        ),
        opts,
    )
    return {
        "gateway_id": plan.gateway,
        "vpn_gateway_id": vpn.vpn_gateway_id,
        "association_id": made.association_id,
        "proposal_id": made.proposal_id,
    }


def build_dns(name: str, site: CloudSitePlan, network: Network, opts: pulumi.ResourceOptions) -> Outputs:
    """Create the DNS endpoints of a site and return their outputs; None if the site has none."""
    plan = site.dns
    if plan is None:
        return None
    dns = SiteDns(
        name,
        SiteDnsArgs(
            vpc_id=network.vpc_id,
            subnet_ids=_dns_subnets(site, network),
            forward={each.domain: each.servers for each in plan.forward},
            inbound=plan.inbound,
            networks=plan.networks,
            tags=site.tags,
        ),
        opts,
    )
    return {
        "inbound_endpoint_id": dns.inbound_endpoint_id,
        "inbound_addresses": dns.inbound_addresses,
        "outbound_endpoint_id": dns.outbound_endpoint_id,
    }


def _dns_subnets(site: CloudSitePlan, network: Network) -> list[pulumi.Output[str]]:
    """Return the private subnets of the first two zones. In a single zone the public subnet is the second
    one: its addresses of endpoints are private, too."""
    private = [network.private_subnet_ids[zone] for zone in site.zones]
    public = [network.public_subnet_ids[zone] for zone in site.zones]
    return [*private, *public][:DNS_ADDRESSES]
