"""The hosts of a rack in a box: those of one rack site of a fleet, with fixed addresses."""

from __future__ import annotations

import ipaddress

from msgspec import Struct

from gpufleet.errors import InputError
from gpufleet.plan.models import FleetPlan

PACKAGES_HOST = "packages.rack"
"""The name under which hosts reach packages and images."""
DEFAULT_NETWORK = "10.90.0.0/24"
# In the order of their addresses.
_ROLES = ("controller", "login", "gpu")
# The first addresses are for the bridge and for programs that tests run beside the hosts.
_FIRST = 11


class RackHost(Struct, frozen=True):
    """A host: its name, its name in the inventory, its IPv4 address and its role."""

    name: str
    address: str
    ip: str
    role: str

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name of the host, without its address."""
        return tuple(dict.fromkeys((self.address, self.name)))


class RackSite(Struct, frozen=True):
    """A rack site for containers. `network` is in CIDR notation, the bridge has its first address.

    `kubernetes` is the minor version of a cluster whose images the rack serves, empty without one.
    """

    site: str
    system: str
    network: str
    ssh_user: str
    ssh_port: int
    hosts: tuple[RackHost, ...]
    kubernetes: str = ""

    @property
    def gateway(self) -> str:
        """Return the address of the bridge, which serves the package repository."""
        return str(ipaddress.ip_network(self.network)[1])

    @property
    def prefix(self) -> int:
        """Return the length of the network's prefix."""
        return ipaddress.ip_network(self.network).prefixlen

    def host(self, name: str) -> RackHost:
        """Return the host of that name. Raises InputError with the existing names."""
        for host in self.hosts:
            if name in (host.name, host.address, host.ip):
                return host
        names = ", ".join(host.name for host in self.hosts)
        raise InputError(f"the rack has no host {name!r}", remedy=f"use one of {names}")


def rack_site(plan: FleetPlan, site: str | None = None) -> RackSite:
    """Return the hosts of the rack site `site`, or of the fleet's first one, with their addresses. Servers of
    a Slurm in the cloud are such a site too.

    Raises InputError if the fleet has no such site, or its network is too small for the hosts.
    """
    planned = {item.site: item for item in plan.host_sites()}
    if not planned:
        raise InputError(f"fleet {plan.fleet!r} has no rack site", remedy="add one under `onprem`")
    name = site or next(iter(planned))
    if name not in planned:
        raise InputError(
            f"fleet {plan.fleet!r} has no rack site {name!r}", remedy=f"use one of {', '.join(planned)}"
        )
    chosen = planned[name]
    network = chosen.rack.network or DEFAULT_NETWORK
    hosts = sorted(chosen.hosts, key=lambda host: _ROLES.index(host.role))
    fixed = {host.name: chosen.rack.host_addresses.get(host.name, "") for host in hosts}
    addresses = _addresses(network, fixed)
    return RackSite(
        site=name,
        system=chosen.system,
        network=network,
        ssh_user=chosen.ssh_user,
        ssh_port=chosen.ssh_port,
        hosts=tuple(RackHost(host.name, host.address, addresses[host.name], host.role) for host in hosts),
        kubernetes=chosen.rack.kubernetes.version
        if chosen.rack.kubernetes and chosen.rack.image_mirror == f"http://{PACKAGES_HOST}"
        else "",
    )


def _addresses(network: str, fixed: dict[str, str]) -> dict[str, str]:
    """Return host name -> address: the fleet file's if it is in this network, else the next free one.

    No two hosts have the same: the fleet file's checks ensure it.
    """
    try:
        parsed = ipaddress.IPv4Network(network)
    except ValueError as error:
        raise InputError(
            f"network {network!r}: {error}",
            remedy="a rack in a box needs an IPv4 network such as 10.90.0.0/24",
        ) from None
    given = {name: address for name, address in fixed.items() if _inside(parsed, address)}
    taken = set(given.values())
    if parsed.num_addresses < _FIRST + len(fixed) + 1:
        raise InputError(
            f"network {network} has {parsed.num_addresses} addresses: too few for {len(fixed)} hosts "
            f"that begin at {parsed.network_address + _FIRST}",
            remedy=f"use a network for the site such as {DEFAULT_NETWORK}",
        )
    free = (str(address) for address in list(parsed.hosts())[_FIRST - 1 :] if str(address) not in taken)
    return {name: given.get(name) or next(free) for name in fixed}


def _inside(network: ipaddress.IPv4Network, address: str) -> bool:
    """Return whether a host of the network can have the address; the first is the bridge's."""
    try:
        parsed = ipaddress.IPv4Address(address)
    except ValueError:
        return False
    edges = (network.network_address, network[1], network.broadcast_address)
    return parsed in network and parsed not in edges
