"""Addresses: CIDRs that are valid, large enough, without overlap, and not open to the internet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, listed
from gpufleet.plan.capacity import group_zones
from gpufleet.plan.subnets import LONGEST_PREFIX, MAX_ZONES, plan_subnets, usable_addresses
from gpufleet.spec.models import CloudSite

LARGEST_VPC = 16
SMALLEST_VPC = 28
PRIVATE = tuple(
    IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
)
RESERVED = {
    IPv4Network("0.0.0.0/8"): "this network (RFC 1122)",
    IPv4Network("127.0.0.0/8"): "the host itself (RFC 1122)",
    IPv4Network("169.254.0.0/16"): "one link (RFC 3927); instance metadata and AWS's DNS answer there",
    IPv4Network("224.0.0.0/4"): "multicast (RFC 5771)",
    IPv4Network("240.0.0.0/4"): "later use (RFC 1112)",
}
"""Address ranges that are not routed or that EC2 rejects for a VPC (InvalidVpc.Range)."""
POD_ADDRESSES_PER_NODE = 50
"""Addresses that the VPC CNI can hold on a large node: it keeps one spare interface (WARM_ENI_TARGET=1) of 50
addresses on the large types (amazon-vpc-cni-k8s, README and eni-max-pods)."""


def parse_network(text: str | None) -> IPv4Network | None:
    """Return the network of `text`, None if it is not an exact CIDR or not set."""
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def _written(fleet: Fleet) -> Iterator[tuple[SpecPath, str]]:
    for path, site in fleet.cloud():
        yield (*path, "network", "cidr"), site.network.cidr
        for index, cidr in enumerate(site.kubernetes.public_cidrs if site.kubernetes is not None else ()):
            yield (*path, "kubernetes", "public_cidrs", index), cidr
        for index, cidr in enumerate(site.kubernetes.private_cidrs if site.kubernetes is not None else ()):
            yield (*path, "kubernetes", "private_cidrs", index), cidr
        for kind, connection in (("vpn", site.network.vpn), ("direct_connect", site.network.direct_connect)):
            for index, cidr in enumerate(connection.networks if connection is not None else ()):
                yield (*path, "network", kind, "networks", index), cidr
    for path, rack_site in fleet.onprem():
        if rack_site.network is not None:
            yield (*path, "network"), rack_site.network


@check("cidr-valid")
def cidr_valid(fleet: Fleet) -> Iterator[FieldFinding]:
    """A CIDR is an IPv4 network address and a prefix length. AWS rejects host bits in a VPC's CIDR and
    silently drops them elsewhere, so a rule would cover more addresses than written."""
    for path, text in _written(fleet):
        if parse_network(text) is not None:
            continue
        try:
            masked = IPv4Network(text, strict=False)
        except (AddressValueError, NetmaskValueError, ValueError):
            yield FieldFinding(
                path, f"'{text}' is not an IPv4 CIDR", "write a network and a prefix, such as 10.40.0.0/16"
            )
            continue
        yield FieldFinding(
            path,
            f"'{text}' has bits set beyond its /{masked.prefixlen} prefix",
            f"write '{masked}', or a longer prefix"
            if masked.prefixlen >= LARGEST_VPC and reserved_for(masked) is None
            else "write the network address and its prefix, such as 10.40.0.0/16",
        )


@check("cidr-reserved")
def cidr_reserved(fleet: Fleet) -> Iterator[FieldFinding]:
    """Reserved address ranges (RFC 6890) are not routed, and EC2 rejects them for a VPC."""
    for path, text in _written(fleet):
        network = parse_network(text)
        use = reserved_for(network) if network is not None else None
        if use is not None:
            yield FieldFinding(
                path,
                f"{network} is reserved for {use}",
                "use a part of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16",
            )


def reserved_for(network: IPv4Network) -> str | None:
    """Return the purpose that a network is reserved for, None if it is not reserved."""
    return next((use for kept, use in RESERVED.items() if network.subnet_of(kept)), None)


@check("cidr-size")
def cidr_size(fleet: Fleet) -> Iterator[FieldFinding]:
    """A VPC is between /16 and /28 (VPC User Guide, "VPC CIDR blocks"). gpufleet divides it into eight, so
    that it needs at least a /22 for public subnets of /28."""
    for path, site in fleet.cloud():
        network = parse_network(site.network.cidr)
        if network is None:
            continue
        where = (*path, "network", "cidr")
        if network.prefixlen < LARGEST_VPC:
            yield FieldFinding(
                where,
                f"{network} is larger than the maximum of a VPC (/{LARGEST_VPC} to /{SMALLEST_VPC})",
                f"write '{network.network_address}/{LARGEST_VPC}'",
            )
        elif network.prefixlen > LONGEST_PREFIX:
            aws = network.prefixlen > SMALLEST_VPC
            yield FieldFinding(
                where,
                f"{network} is too small for a public and a private subnet in each zone"
                + (f", and smaller than the minimum of a VPC (/{SMALLEST_VPC})" if aws else ""),
                f"use /{LONGEST_PREFIX} or larger, such as '{network.supernet(new_prefix=LONGEST_PREFIX)}'",
            )


@check("cidr-overlap")
def cidr_overlap(fleet: Fleet) -> Iterator[FieldFinding]:
    """Sites of a fleet may be connected (peering, VPN, Direct Connect), which overlapping networks prevent. A
    VPC's CIDR cannot change later."""
    seen: list[tuple[str, IPv4Network]] = []
    declared: list[tuple[SpecPath, str, str | None]] = [
        ((*path, "network", "cidr"), site.site, site.network.cidr) for path, site in fleet.cloud()
    ]
    declared += [((*path, "network"), site.site, site.network) for path, site in fleet.onprem()]
    taken = [network for _, _, text in declared if (network := parse_network(text)) is not None]
    for path, name, text in declared:
        network = parse_network(text)
        if network is None:
            continue
        overlapped = [(each, other) for each, other in seen if network.overlaps(other)]
        free = _free(network, taken) if overlapped else None
        # A network suggested for one site is taken for the next.
        taken += [free] if free is not None else []
        for other_name, other in overlapped:
            yield FieldFinding(
                path,
                f"{network} of site {name!r} overlaps {other} of site {other_name!r}",
                f"write '{free}', or another free network" if free else "use a free network",
            )
        seen.append((name, network))


def _free(network: IPv4Network, taken: list[IPv4Network]) -> IPv4Network | None:
    """Return the next network of the same size in 10.0.0.0/8 that overlaps none in `taken`."""
    step = 1 << (32 - network.prefixlen)
    start = int(network.network_address)
    last = int(PRIVATE[0].broadcast_address)
    for address in range(start + step, min(start + 4096 * step, last), step):
        candidate = IPv4Network((address, network.prefixlen))
        if candidate.subnet_of(PRIVATE[0]) and not any(candidate.overlaps(other) for other in taken):
            return candidate
    return None


@check("cidr-private")
def cidr_private(fleet: Fleet) -> Iterator[FieldFinding]:
    """Addresses outside of RFC 1918 and RFC 6598 are public: the site could not reach their owners on the
    internet."""
    for path, site in fleet.cloud():
        network = parse_network(site.network.cidr)
        if network is None or reserved_for(network) is not None:
            continue
        if not any(network.subnet_of(private) for private in PRIVATE):
            yield FieldFinding(
                (*path, "network", "cidr"),
                f"{network} is not private address space",
                "use a part of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16",
                "warning",
            )


@check("public-endpoint")
def public_endpoint(fleet: Fleet) -> Iterator[FieldFinding]:
    """If the Kubernetes API is open to the internet, one leaked credential gives access to the cluster. The
    endpoint is private unless `public_cidrs` lists networks."""
    for path, site in fleet.cloud():
        for index, text in enumerate(site.kubernetes.public_cidrs if site.kubernetes is not None else ()):
            network = parse_network(text)
            where = (*path, "kubernetes", "public_cidrs", index)
            if network is not None and network.prefixlen == 0:
                yield FieldFinding(
                    where,
                    f"{text} opens the Kubernetes API to the whole internet",
                    "list only the networks that need it, or remove it to use the private endpoint",
                )
            elif network is not None and any(network.subnet_of(private) for private in PRIVATE):
                yield FieldFinding(
                    where,
                    f"{text} is private address space: the public endpoint cannot be reached from there",
                    "list public addresses; private networks use the private endpoint",
                    "warning",
                )


@check("subnet-addresses")
def subnet_addresses(fleet: Fleet) -> Iterator[FieldFinding]:
    """Each ENA interface and each pod uses one address of the private subnets; EFA-only interfaces use none.
    A subnet cannot be enlarged."""
    for path, site in fleet.cloud():
        sizes = _private_sizes(site)
        if not sizes:
            continue
        where = (*path, "network", "cidr")
        need: dict[tuple[str, ...], int] = {}
        for group in site.node_groups:
            zones = tuple(zone for zone in group_zones(group, site) if zone in sizes)
            need[zones] = need.get(zones, 0) + group.capacity.most_nodes
        nodes = sum(need.values())
        full = False
        for zones, wanted in need.items():
            room = sum(sizes[zone] for zone in zones)
            if zones and wanted > room:
                full = True
                yield FieldFinding(
                    where,
                    f"{wanted:,} nodes at maximum size need more than the {room:,} private addresses in"
                    f" {listed(zones)}",
                    f"use a larger network (a /{LARGEST_VPC} has 8,187 private addresses per zone)",
                )
        pods = nodes * POD_ADDRESSES_PER_NODE
        room = sum(sizes.values())
        if site.scheduler == "kubernetes" and not full and room < pods:
            bits = math.ceil(math.log2(pods / room))
            prefix = int(site.network.cidr.rpartition("/")[2]) - bits
            yield FieldFinding(
                where,
                f"{nodes:,} nodes at maximum size use {pods:,} addresses with their pods"
                f" ({POD_ADDRESSES_PER_NODE} per node with the VPC CNI's defaults), but the private subnets"
                f" have {room:,}",
                f"use a /{prefix}" if prefix >= LARGEST_VPC else "use more zones or sites",
            )


def _private_sizes(site: CloudSite) -> dict[str, int]:
    network = parse_network(site.network.cidr)
    if network is None or network.prefixlen > LONGEST_PREFIX or len(site.zones) > MAX_ZONES:
        return {}
    subnets = plan_subnets(site.network.cidr, site.zones)
    return {item.zone: usable_addresses(item.cidr) for item in subnets if item.kind == "private"}


@check("onprem-network-size")
def onprem_network_size(fleet: Fleet) -> Iterator[FieldFinding]:
    """Each host of a rack site needs an address of the site's network."""
    for path, site in fleet.onprem():
        network = parse_network(site.network)
        if network is None:
            continue
        ranges = (site.nodes, site.controllers, site.login)
        hosts = sum(len(item.hosts) for item in ranges if item is not None)
        room = network.num_addresses - 2
        if hosts > room:
            yield FieldFinding(
                (*path, "network"),
                f"{hosts} hosts do not fit the {room} addresses of {network}",
                f"use a /{32 - math.ceil(math.log2(hosts + 2))} or larger",
            )


CHECKS = (
    cidr_valid,
    cidr_reserved,
    cidr_size,
    cidr_overlap,
    cidr_private,
    public_endpoint,
    subnet_addresses,
    onprem_network_size,
)
