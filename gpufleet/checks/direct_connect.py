"""Direct Connect: the networks behind the gateway, and how many VPCs it takes."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.connections import check_networks
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check
from gpufleet.kinds import MOST_GATEWAYS_OF_DIRECT_CONNECT
from gpufleet.spec.models import CloudDirectConnect, CloudSite


@check("direct-connect-networks")
def direct_connect_networks(fleet: Fleet) -> Iterator[FieldFinding]:
    """Routers behind the Direct Connect gateway announce networks. AWS routes the site's own addresses inside
    of its VPC, whatever else is announced (Amazon VPC User Guide, "Route priority")."""
    for path, site, direct in _connected(fleet):
        place = f"behind Direct Connect gateway {direct.gateway}"
        yield from check_networks(fleet, (path, site), "direct_connect", direct.networks, place)


@check("direct-connect-gateway")
def direct_connect_gateway(fleet: Fleet) -> Iterator[FieldFinding]:
    """A Direct Connect gateway is of one account, and takes 20 virtual private gateways, which AWS does not
    raise (Direct Connect User Guide, "Quotas"). Each site has one."""
    sites: dict[str, int] = {}
    owners: dict[str, tuple[str, str | None]] = {}
    for path, site, direct in _connected(fleet):
        where = (*path, "network", "direct_connect")
        sites[direct.gateway] = sites.get(direct.gateway, 0) + 1
        if sites[direct.gateway] == MOST_GATEWAYS_OF_DIRECT_CONNECT + 1:
            yield FieldFinding(
                (*where, "gateway"),
                f"more than {MOST_GATEWAYS_OF_DIRECT_CONNECT} sites use Direct Connect gateway"
                f" {direct.gateway}, and it takes at most {MOST_GATEWAYS_OF_DIRECT_CONNECT} virtual private"
                " gateways",
                "use another Direct Connect gateway for some of the sites",
                value=direct.gateway,
            )
        other, owner = owners.setdefault(direct.gateway, (site.site, direct.owner))
        if owner != direct.owner:
            yield FieldFinding(
                (*where, "owner"),
                f"sites {other!r} and {site.site!r} have different owners of Direct Connect gateway"
                f" {direct.gateway}: {owner or 'none'} and {direct.owner or 'none'}",
                "write the account that has the gateway in both; leave it out in both if that is the account"
                " of the environment",
                value=direct.owner or "none",
            )


def _connected(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, CloudDirectConnect]]:
    for path, site in fleet.cloud():
        if site.network.direct_connect is not None:
            yield path, site, site.network.direct_connect


CHECKS = (direct_connect_networks, direct_connect_gateway)
