"""The tags that gpufleet sets for a fleet, and their allowed combinations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from gpufleet.kinds import AUTOSCALED_TAG, DRAIN_TAG, DRAIN_TAG_VALUE, SLURM_SERVER_TAG
from gpufleet.plan.marks import TAG_PREFIX, fleet_tags
from gpufleet.plan.names import site_resource_name
from gpufleet.resources.launches import LAUNCHERS
from gpufleet.resources.resource import is_unknown
from gpufleet.resources.types import (
    BUCKETS,
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    CLUSTER,
    EFS,
    LAUNCH_TEMPLATE,
    LUSTRE,
    PLACEMENT_GROUP,
    SUBNET,
    VOLUME,
    VPC,
)
from gpufleet.spec.models import FleetSpec

SITE = f"{TAG_PREFIX}site"
NODE_GROUP = f"{TAG_PREFIX}node-group"
STORAGE = f"{TAG_PREFIX}storage"
TEAM = f"{TAG_PREFIX}team"
EXPIRES = f"{TAG_PREFIX}expires"

OF_A_SITE = frozenset(
    {
        *LAUNCHERS,
        *BUCKETS,
        CAPACITY_BLOCK,
        CAPACITY_RESERVATION,
        CLUSTER,
        EFS,
        LAUNCH_TEMPLATE,
        LUSTRE,
        PLACEMENT_GROUP,
        SUBNET,
        VOLUME,
        VPC,
        "aws:ec2/eip:Eip",
        "aws:ec2/natGateway:NatGateway",
        "aws:ec2/vpcEndpoint:VpcEndpoint",
        "aws:ec2/vpnConnection:VpnConnection",
        "aws:route53/resolverEndpoint:ResolverEndpoint",
    }
)
"""Resource types that carry the tag of their site: they are billed to a site, or hold what is."""


class FleetTags(Struct, frozen=True):
    """The tags of a fleet: those on all resources, and the allowed values of site, group and storage tags.

    `teams` maps (site, node group) to the team of the group, None for a group without a team. `members` are
    (site, team) of teams with a role of their own, for buckets, `autoscaled` the clusters with an autoscaler;
    `drains` is whether a spent budget drains spot nodes, `servers` are (site, role) of a Slurm of the site's
    own.
    """

    everywhere: Mapping[str, str]
    regions: Mapping[str, str]
    sites: frozenset[str]
    storage: frozenset[tuple[str, str]]
    teams: Mapping[tuple[str, str], str | None]
    members: frozenset[tuple[str, str]]
    autoscaled: frozenset[str]
    drains: bool
    servers: frozenset[tuple[str, str]]

    def site_in(self, region: str | None) -> str | None:
        """Return the only site of the fleet in a region; None if there is none or several."""
        found = [site for site, where in self.regions.items() if where == region]
        return found[0] if len(found) == 1 else None

    def wrong_places(
        self, tags: Mapping[str, Any], region: str | None, *, single: bool = False
    ) -> Iterator[tuple[str, str]]:
        """Yield (key, problem) of site, group and storage tags; `single`: no other tags are available."""
        for key, value in tags.items():
            if not key.startswith(TAG_PREFIX) or key in self.everywhere:
                continue
            reason = self._wrong(key, value, tags, region, single)
            if reason:
                yield key, reason

    def _wrong(self, key: str, value: Any, tags: Mapping[str, Any], region: str | None, single: bool) -> str:
        if key == EXPIRES:
            return "and the fleet file has no `expires`"
        if key not in (SITE, NODE_GROUP, STORAGE, TEAM, AUTOSCALED_TAG, DRAIN_TAG, SLURM_SERVER_TAG):
            return f"and gpufleet, which reserves {TAG_PREFIX}, has no such tag"
        if is_unknown(value):
            return "and must be one of the fleet file"
        if key == AUTOSCALED_TAG:
            return "" if value in self.autoscaled else "and no autoscaler of the fleet has that name"
        if key == DRAIN_TAG:
            return "" if self.drains and value == DRAIN_TAG_VALUE else "and no budget of the fleet drains it"
        site, group = tags.get(SITE), tags.get(NODE_GROUP)
        if key == SLURM_SERVER_TAG:
            return "" if (site, value) in self.servers else "and the site has no such servers"
        if key == SITE:
            if value not in self.sites:
                return "and the fleet has no such site"
            elsewhere = region is not None and self.regions.get(value, region) != region
            return f"which is in {self.regions.get(value)}, and this is in {region}" if elsewhere else ""
        if single:
            named = {name for _, name in (self.teams if key == NODE_GROUP else self.storage)}
            known = set(self.teams.values()) if key == TEAM else named
            return "" if value in known else "and the fleet has none of that name"
        if is_unknown(site) or is_unknown(group):
            return ""  # reported for that tag
        if key == TEAM and group is None:
            known_here = (site, value) in self.members
            return "" if known_here else f"and site {site or '(without a tag)'} has no such team"
        if key == TEAM:
            team = self.teams.get((str(site), str(group)))
            return "" if team == value else "and its node group belongs to another team"
        found = (site, value) in (self.teams if key == NODE_GROUP else self.storage)
        return "" if found else f"and site {site or '(without a tag)'} has none of that name"


_last: list[tuple[FleetSpec, FleetTags]] = []


def fleet_of(spec: FleetSpec) -> FleetTags:
    """Return the tags of a fleet file, computed once for all resources of a run."""
    for known, tags in _last:
        if known is spec:
            return tags
    sites = {site.site for site in spec.cloud} | {site.site for site in spec.onprem}
    tags = FleetTags(
        everywhere=fleet_tags(spec),
        regions={site.site: site.region for site in spec.cloud},
        sites=frozenset(sites),
        storage=frozenset((site.site, item.name) for site in spec.cloud for item in site.storage),
        teams={(site.site, group.name): group.team for site in spec.cloud for group in site.node_groups},
        members=frozenset(
            (site.site, team.name)
            for site in spec.cloud
            if site.kubernetes is not None
            for team in site.kubernetes.teams
            if team.buckets
        ),
        autoscaled=frozenset(
            site_resource_name(spec.fleet, spec.environment, site.site)
            for site in spec.cloud
            if site.kubernetes is not None
            and site.kubernetes.autoscaler is not None
            and site.kubernetes.autoscaler.kind != "none"
        ),
        drains=spec.budget.on_breach == "drain-spot",
        servers=frozenset(
            (site.site, role)
            for site in spec.cloud
            if site.slurm is not None and site.slurm.servers is not None
            for role in ("controller", "login")
        ),
    )
    _last[:] = [(spec, tags)]
    return tags
