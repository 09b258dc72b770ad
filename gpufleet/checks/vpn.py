"""Site-to-site VPNs: the router's address and BGP number, and the networks behind it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from gpufleet.checks.networks import PRIVATE, parse_network, reserved_for
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, listed
from gpufleet.kinds import VPN_AMAZON_ASN, VPN_ASN
from gpufleet.plan.vpn import vpn_networks
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
        where = (*path, "network", "vpn")
        networks = vpn_networks(fleet.spec, vpn)
        if not networks:
            racks = [each.site for each in fleet.spec.onprem]
            reason = (
                f"the fleet has {len(racks)} rack sites ({listed(racks)})"
                if len(racks) > 1
                else f"site {racks[0]!r} has no `network`"
                if racks
                else "the fleet has no rack site"
            )
            yield FieldFinding(
                (*where, "networks"),
                f"nothing says which networks are behind router {vpn.gateway}: {reason}",
                "write them, such as 'networks: [10.60.0.0/22]'",
                value="none",
            )
        own = parse_network(site.network.cidr)
        for index, text in enumerate(networks):
            place = (*where, "networks", index) if vpn.networks else where
            network = parse_network(text)
            if text in networks[:index]:
                yield FieldFinding(place, f"{text} is listed twice", "list it once")
            elif vpn.networks and network is not None and own is not None and network.overlaps(own):
                yield FieldFinding(
                    place,
                    f"{text} overlaps {own}, the network of site {site.site!r}: it is never reached through"
                    " the VPN",
                    "use other addresses for one of them",
                    value=text,
                )


@check("vpn-slurm")
def slurm_connection(fleet: Fleet) -> Iterator[FieldFinding]:
    """Controllers and the nodes that they launch connect to each other (slurm.conf, SlurmctldPort and
    SlurmdPort), so that the network of the rack site has to be connected to that of the cloud site: by
    `network.vpn`, or by a connection that gpufleet does not manage."""
    for path, site in fleet.cloud():
        if site.slurm is None or site.scheduler != "slurm":
            continue
        rack = next((each for each in fleet.spec.onprem if each.site == site.slurm.controllers), None)
        network = parse_network(rack.network) if rack is not None else None
        if rack is None or network is None:
            continue
        vpn = site.network.vpn
        behind = [parse_network(text) for text in vpn_networks(fleet.spec, vpn)] if vpn is not None else []
        if not any(other is not None and network.subnet_of(other) for other in behind):
            yield FieldFinding(
                (*path, "slurm", "controllers"),
                f"no VPN of this fleet connects site {site.site!r} to {network}, the network of site"
                f" {rack.site!r}, whose controllers launch its nodes",
                f"add {network} to `networks` of `network.vpn`"
                if vpn is not None
                else "add `network.vpn`, such as 'vpn: {gateway: 203.0.113.7}'; ignore this if the networks"
                " are connected in another way (Direct Connect, a transit gateway)",
                "warning",
            )


def _vpns(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, CloudVpn]]:
    for path, site in fleet.cloud():
        if site.network.vpn is not None:
            yield path, site, site.network.vpn


CHECKS = (vpn_gateway, vpn_asn, vpn_behind_router, slurm_connection)
