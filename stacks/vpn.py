"""The site-to-site VPN of a cloud site."""

from __future__ import annotations

from typing import Any

import pulumi

from gpufleet.components.network import Network
from gpufleet.components.vpn import SiteVpn, SiteVpnArgs
from gpufleet.plan.models import CloudSitePlan


def build_vpn(
    name: str, site: CloudSitePlan, network: Network, opts: pulumi.ResourceOptions
) -> dict[str, Any] | None:
    """Create the VPN of a site and return its outputs; None if the site has none."""
    plan = site.vpn
    if plan is None:
        return None
    vpn = SiteVpn(
        name,
        SiteVpnArgs(
            vpc_id=network.vpc_id,
            route_table_ids=network.route_table_ids,
            gateway=plan.gateway,
            asn=plan.asn,
            amazon_asn=plan.amazon_asn,
            networks=plan.networks,
            static=plan.static,
            tags=site.tags,
        ),
        opts,
    )
    return {
        "vpn_connection_id": vpn.vpn_connection_id,
        "customer_gateway_id": vpn.customer_gateway_id,
        "vpn_gateway_id": vpn.vpn_gateway_id,
        "tunnel_addresses": list(vpn.tunnel_addresses),
    }
