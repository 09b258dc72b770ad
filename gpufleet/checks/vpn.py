"""Site-to-site VPNs: the router's address and BGP number, and the networks behind it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from gpufleet.checks.connections import check_networks
from gpufleet.checks.networks import PRIVATE, parse_network, reserved_for
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check
from gpufleet.kinds import VPN_AMAZON_ASN, VPN_ASN
from gpufleet.spec.models import CloudSite, CloudVpn

RESERVED_ASNS = {
    VPN_AMAZON_ASN: "that of AWS's side of the VPN",
    7224: "AWS's own in us-east-1",
    9059: "AWS's own in eu-west-1",
    10124: "AWS's own in ap-northeast-1",
    17943: "AWS's own in ap-southeast-1",
    23456: "reserved (AS_TRANS, RFC 6793)",
    65535: "reserved (RFC 7300)",
}
"""BGP numbers that a router cannot have (Site-to-Site VPN User Guide, "Customer gateway options")."""


@check("vpn-gateway")
def vpn_gateway(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS builds the tunnels to a public IPv4 address of the router, and each VPN connection of a region
    needs an address of its own (EC2 API error InvalidCustomerGateway.DuplicateIpAddress)."""
    taken: dict[tuple[str, str], str] = {}
    for path, site, vpn in _vpns(fleet):
        where = (*path, "network", "vpn", "gateway")
        try:
            address = IPv4Address(vpn.gateway)
        except ValueError:
            yield FieldFinding(
                where,
                f"{vpn.gateway!r} is no IPv4 address",
                "write the public address of the router, such as 'gateway: 203.0.113.7'",
            )
            continue
        reason = _unreachable(address)
        if reason:
            yield FieldFinding(
                where,
                f"{address} is {reason}: AWS cannot reach the router there",
                "write the address that the router has on the internet (behind NAT, that of the NAT device)",
            )
        other = taken.setdefault((site.region, vpn.gateway), site.site)
        if other != site.site:
            yield FieldFinding(
                where,
                f"sites {other!r} and {site.site!r} have VPNs to {address}, and in one region ({site.region})"
                " each VPN connection needs an address of its own",
                "write another public address of the router",
            )


def _unreachable(address: IPv4Address) -> str:
    """Return why AWS cannot reach an address; empty if nothing is against it."""
    host = parse_network(f"{address}/32")
    if host is None:
        return ""
    if any(address in private for private in PRIVATE):
        return "a private address"
    purpose = reserved_for(host)
    return "" if purpose is None else f"for {purpose}"


@check("vpn-asn")
def vpn_asn(fleet: Fleet) -> Iterator[FieldFinding]:
    """The router and AWS's side have different BGP numbers, and AWS rejects some numbers for routers
    (Site-to-Site VPN User Guide, "Customer gateway options")."""
    for path, _, vpn in _vpns(fleet):
        if vpn.asn in RESERVED_ASNS:
            yield FieldFinding(
                (*path, "network", "vpn", "asn"),
                f"ASN {vpn.asn} is {RESERVED_ASNS[vpn.asn]}",
                f"write the router's own, or a private one, such as 'asn: {VPN_ASN}' (64513 to 65534,"
                " 4200000000 to 4294967294)",
                value=vpn.asn,
            )


@check("vpn-networks")
def vpn_behind_router(fleet: Fleet) -> Iterator[FieldFinding]:
    """Routes lead to the networks behind the router. AWS routes the site's own addresses inside of its VPC,
    whatever else is announced (Amazon VPC User Guide, "Route priority")."""
    for path, site, vpn in _vpns(fleet):
        yield from check_networks(fleet, (path, site), "vpn", vpn.networks, f"behind router {vpn.gateway}")


def _vpns(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, CloudVpn]]:
    for path, site in fleet.cloud():
        if site.network.vpn is not None:
            yield path, site, site.network.vpn


CHECKS = (vpn_gateway, vpn_asn, vpn_behind_router)
