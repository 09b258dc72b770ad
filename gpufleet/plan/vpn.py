"""The site-to-site VPN of a cloud site."""

from __future__ import annotations

from msgspec import Struct

from gpufleet.kinds import VPN_AMAZON_ASN
from gpufleet.spec.models import CloudSite, FleetSpec


class VpnPlan(Struct, frozen=True):
    """A VPN to the router `gateway` (public IPv4 address), and the networks (CIDRs) behind it.

    `asn` is the BGP number of the router, `amazon_asn` that of AWS's side. Routes are `static`, or come by
    BGP. With `logs`, the tunnels write logs.
    """

    gateway: str
    asn: int
    amazon_asn: int
    networks: tuple[str, ...]
    static: bool
    logs: bool = False


def plan_vpn(spec: FleetSpec, site: CloudSite) -> VpnPlan | None:
    """The VPN of a site; None if the fleet file declares none."""
    vpn = site.network.vpn
    if vpn is None:
        return None
    return VpnPlan(
        vpn.gateway, vpn.asn, VPN_AMAZON_ASN, networks_behind(spec, vpn.networks), vpn.static, vpn.logs
    )


def networks_behind(spec: FleetSpec, written: tuple[str, ...]) -> tuple[str, ...]:
    """The networks that a connection leads to: those written, else that of the only rack site.

    With several rack sites nothing says which of them the connection leads to, so there is no default.
    """
    if written or len(spec.onprem) != 1:
        return written
    network = spec.onprem[0].network
    return () if network is None else (network,)
