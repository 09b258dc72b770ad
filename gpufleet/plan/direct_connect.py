"""Direct Connect of a cloud site."""

from __future__ import annotations

from msgspec import Struct

from gpufleet.plan.vpn import networks_behind
from gpufleet.spec.models import CloudSite, FleetSpec


class DirectConnectPlan(Struct, frozen=True):
    """An association with the Direct Connect gateway `gateway` (ID), and the networks (CIDRs) behind it.

    `owner` is the account of the gateway, to which the association is proposed; None if it is that of the
    environment, so that the association needs no acceptance.
    """

    gateway: str
    owner: str | None
    networks: tuple[str, ...]


def plan_direct_connect(spec: FleetSpec, site: CloudSite) -> DirectConnectPlan | None:
    """The Direct Connect of a site; None if the fleet file declares none."""
    declared = site.network.direct_connect
    if declared is None:
        return None
    return DirectConnectPlan(declared.gateway, declared.owner, networks_behind(spec, declared.networks))
