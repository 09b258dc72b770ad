"""The networks that a site's connections lead to, and racks whose Slurm needs one."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from gpufleet.checks.networks import parse_network
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, listed
from gpufleet.plan.vpn import networks_behind
from gpufleet.spec.models import CloudSite

TITLES = {"vpn": "the VPN", "direct_connect": "Direct Connect"}
"""The connections of a site, by their fields of `network`."""


def check_networks(
    fleet: Fleet, at: tuple[SpecPath, CloudSite], kind: str, written: tuple[str, ...], place: str
) -> Iterator[FieldFinding]:
    """Yield what is wrong with the networks of a connection: none, one twice, or one of the site itself."""
    path, site = at
    where = (*path, "network", kind)
    if not networks_behind(fleet.spec, written):
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
            f"nothing says which networks are {place}: {reason}",
            "write them, such as 'networks: [10.60.0.0/22]'",
            value="none",
        )
    own = parse_network(site.network.cidr)
    for index, text in enumerate(written):
        item = (*where, "networks", index)
        network = parse_network(text)
        if text in written[:index]:
            yield FieldFinding(item, f"{text} is listed twice", "list it once")
        elif network is not None and own is not None and network.overlaps(own):
            yield FieldFinding(
                item,
                f"{text} overlaps {own}, the network of site {site.site!r}: it is never reached through"
                f" {TITLES[kind]}",
                "use other addresses for one of them",
                value=text,
            )


def connected_networks(fleet: Fleet, site: CloudSite) -> list[IPv4Network]:
    """Return the networks that the VPN and Direct Connect of a site lead to; invalid ones are left out."""
    found = [
        parse_network(text)
        for each in (site.network.vpn, site.network.direct_connect)
        if each is not None
        for text in networks_behind(fleet.spec, each.networks)
    ]
    return [each for each in found if each is not None]


@check("vpn-slurm")
def slurm_connection(fleet: Fleet) -> Iterator[FieldFinding]:
    """Controllers and the nodes that they launch connect to each other (slurm.conf, SlurmctldPort and
    SlurmdPort), so that the network of the rack site has to be connected to that of the cloud site: by
    `network.vpn` or `network.direct_connect`, or by a connection that gpufleet does not manage."""
    racks: dict[str | None, IPv4Network | None] = {
        each.site: parse_network(each.network) for each in fleet.spec.onprem
    }
    for path, site in fleet.cloud():
        if site.slurm is None or site.scheduler != "slurm":
            continue
        network = racks.get(site.slurm.controllers)
        if network is None:
            continue
        declared = [kind for kind in TITLES if getattr(site.network, kind) is not None]
        if not any(network.subnet_of(other) for other in connected_networks(fleet, site)):
            yield FieldFinding(
                (*path, "slurm", "controllers"),
                f"no VPN or Direct Connect of this fleet connects site {site.site!r} to {network}, the"
                f" network of site {site.slurm.controllers!r}, whose controllers launch its nodes",
                f"add {network} to `networks` of `network.{declared[0]}`"
                if declared
                else "add `network.vpn`, such as 'vpn: {gateway: 203.0.113.7}', or `network.direct_connect`;"
                " ignore this if the networks are connected in another way (a transit gateway)",
                "warning",
            )


CHECKS = (slurm_connection,)
