"""What a plan needs of an account, region by region. Pure: no call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from gpufleet.account.result import SpecPath
from gpufleet.kinds import DRAIN_SUFFIX, STOP_SUFFIX
from gpufleet.plan.capacity_models import (
    CapacityBlockPlan,
    ExistingBlockPlan,
    ExistingReservationPlan,
    ReservationGroupPlan,
    ReservationPlan,
    SpotPlan,
)
from gpufleet.plan.models import CloudSitePlan, FleetPlan, NodeGroupPlan
from gpufleet.plan.names import BUDGET_SUFFIX, environment_resource_name, site_resource_name

Market = Literal["on-demand", "spot"]


class NodeNeed(Struct, frozen=True):
    """Nodes of a group from one market: `now` at once, `most` at maximum.

    `types` are all types that may be launched. `reserved` is True if the capacity is held already, so that
    launches add nothing to the use of a quota. `managed` are the most nodes of its EKS managed node group; 0
    where it has none, as a node pool of Karpenter.
    """

    path: SpecPath
    name: str
    types: tuple[str, ...]
    zones: tuple[str, ...]
    market: Market
    now: int
    most: int
    reserved: bool = False
    managed: int = 0


class SiteNeeds(Struct, frozen=True):
    """A site with its path in the fleet file, and its nodes. `name` is that of the site's resources."""

    path: SpecPath
    name: str
    plan: CloudSitePlan
    nodes: tuple[NodeNeed, ...]


class RegionNeeds(Struct, frozen=True):
    """The needs of all sites of a region. `owner` are the tags of the fleet's own resources.

    `stop_role` is the role of the function that stops the growth of node groups; empty without one.
    `anomalies` is True if the budget reports unusual cost.
    """

    region: str
    sites: tuple[SiteNeeds, ...]
    owner: tuple[tuple[str, str], ...]
    stop_role: str = ""
    drain_role: str = ""
    anomalies: bool = False

    @property
    def nodes(self) -> tuple[NodeNeed, ...]:
        """The nodes of all sites."""
        return tuple(need for site in self.sites for need in site.nodes)

    def owns(self, tags: Sequence[dict[str, str]] | None) -> bool:
        """Return whether a resource of these tags (`Key`, `Value`) belongs to the fleet."""
        found = {tag.get("Key"): tag.get("Value") for tag in tags or ()}
        return all(found.get(key) == value for key, value in self.owner)


OWNER_TAGS = ("gpufleet:fleet", "gpufleet:environment")


def region_needs(plan: FleetPlan) -> tuple[RegionNeeds, ...]:
    """Return the needs of each region, in the order of the fleet file."""
    owner = tuple((key, plan.tags[key]) for key in OWNER_TAGS if key in plan.tags)
    sites: dict[str, list[SiteNeeds]] = {}
    for index, site in enumerate(plan.cloud):
        path: SpecPath = ("cloud", index)
        name = site_resource_name(plan.fleet, plan.environment, site.site)
        nodes = (*_system(path, site), *_groups(path, site))
        sites.setdefault(site.region, []).append(SiteNeeds(path, name, site, nodes))
    budget = f"{environment_resource_name(plan.fleet, plan.environment)}{BUDGET_SUFFIX}"
    stop_role = f"{budget}{STOP_SUFFIX}" if plan.budget.stops_growth else ""
    drain_role = f"{budget}{DRAIN_SUFFIX}" if plan.budget.drains_spot else ""
    anomalies = plan.budget.anomalies is not None
    return tuple(
        RegionNeeds(region, tuple(found), owner, stop_role, drain_role, anomalies)
        for region, found in sites.items()
    )


def _system(path: SpecPath, site: CloudSitePlan) -> Iterator[NodeNeed]:
    if site.kubernetes is None:
        return
    nodes = site.kubernetes.system_nodes
    yield NodeNeed(
        (*path, "kubernetes"),
        f"{site.site}/system",
        nodes.instance_types,
        site.zones,
        "on-demand",
        nodes.min,
        nodes.max,
        managed=nodes.max,
    )


def _groups(path: SpecPath, site: CloudSitePlan) -> Iterator[NodeNeed]:
    for index, group in enumerate(site.node_groups):
        where = (*path, "node_groups", index)
        capacity = group.capacity
        spot = isinstance(capacity, SpotPlan)
        held = isinstance(
            capacity, ExistingReservationPlan | ReservationGroupPlan | ExistingBlockPlan | CapacityBlockPlan
        )
        shared = capacity.shared_nodes if isinstance(capacity, ReservationPlan) else 0
        market: Market = "spot" if spot else "on-demand"
        yield _need(where, group, market, capacity.desired + shared, reserved=held, shared=shared)
        if isinstance(capacity, SpotPlan) and capacity.on_demand_fallback:
            yield _need(where, group, "on-demand", 0)


def _need(
    path: SpecPath,
    group: NodeGroupPlan,
    market: Market,
    now: int,
    *,
    reserved: bool = False,
    shared: int = 0,
) -> NodeNeed:
    zone = getattr(group.capacity, "reservation_zone", None)
    zones = (zone,) if zone else group.zones
    name = f"{group.site}/{group.name}"
    most = group.capacity.max + shared
    managed = group.capacity.max if group.node_pool is None else 0
    return NodeNeed(path, name, group.instance_types, zones, market, now, most, reserved, managed)
