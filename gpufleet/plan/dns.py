"""DNS between a cloud site and the racks."""

from __future__ import annotations

from msgspec import Struct

from gpufleet.kinds import DNS_DIRECTIONS
from gpufleet.plan.vpn import networks_behind
from gpufleet.spec.models import CloudSite, FleetSpec


class ForwardPlan(Struct, frozen=True):
    """A domain, and the addresses of the DNS servers at the racks that the site asks for its names."""

    domain: str
    servers: tuple[str, ...]


class DnsPlan(Struct, frozen=True):
    """The domains that a site forwards, and whether `networks` (CIDRs) of the racks may ask for its names."""

    forward: tuple[ForwardPlan, ...]
    inbound: bool
    networks: tuple[str, ...]

    @property
    def directions(self) -> tuple[str, ...]:
        """The endpoints: `inbound` is asked by the racks, `outbound` asks them."""
        wanted = (self.inbound, bool(self.forward))
        return tuple(each for each, has in zip(DNS_DIRECTIONS, wanted, strict=True) if has)


def plan_dns(spec: FleetSpec, site: CloudSite) -> DnsPlan | None:
    """The DNS of a site; None if the fleet file declares none."""
    dns = site.network.dns
    if dns is None:
        return None
    forward = tuple(ForwardPlan(each.domain.lower(), each.servers) for each in dns.forward)
    return DnsPlan(forward, dns.inbound, connected(spec, site))


def connected(spec: FleetSpec, site: CloudSite) -> tuple[str, ...]:
    """The networks that the VPN and Direct Connect of a site lead to, each once."""
    ways = [each for each in (site.network.vpn, site.network.direct_connect) if each is not None]
    return tuple(dict.fromkeys(text for each in ways for text in networks_behind(spec, each.networks)))
