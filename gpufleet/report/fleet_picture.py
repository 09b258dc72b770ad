"""A fleet as a picture: sites with their zones, node groups, racks and storage. Drawings and text, no markup.

Larger numbers are drawn to scale, and the text below states the scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from msgspec import Struct

from gpufleet.plan.capacity_models import CapacityBlockPlan, ExistingBlockPlan, SpotPlan
from gpufleet.plan.models import CloudSitePlan, FleetPlan, NodeGroupPlan, OnPremSitePlan
from gpufleet.racks.hostlists import fold_hosts
from gpufleet.report.fleet_drawing import SYSTEM_UNITS, UNITS, Drawing, draw_nodes, draw_rack, round_up
from gpufleet.spec.models import FleetSpec, OnPremSite
from gpufleet.verdict.models import RackFigures, Verdict
from gpufleet.verdict.racks import nodes_in_a_rack

_RACKS = 120
"""Maximum number of racks of a site that are drawn."""
_LABELLED = 12
"""Maximum number of racks that are drawn with their names."""
OPTIONS = {
    "on-demand": "On demand",
    "spot": "Spot",
    "on-demand and spot": "On demand and spot",
    "odcr": "Capacity reservation",
    "capacity-block": "Capacity Block",
}
"""Purchase options, as shown on the page."""


class GroupPicture(Struct, frozen=True):
    """A node group. `scale` is the number of nodes per square, `option` its purchase option."""

    name: str
    option: str
    bought: str
    size: str
    gpus: str
    network: str
    efa: bool
    note: str
    scale: int
    drawing: Drawing


class StorePicture(Struct, frozen=True):
    """A file system or bucket."""

    name: str
    kind: str
    facts: str
    place: str
    bucket: bool


class PlacePicture(Struct, frozen=True):
    """One zone, several zones that share resources, or the whole region."""

    name: str
    groups: tuple[GroupPicture, ...]
    stores: tuple[StorePicture, ...]


class RackPicture(Struct, frozen=True):
    """A rack, or `count` racks drawn as one. `label` is empty if there are too many for names."""

    label: str
    drawing: Drawing


class SitePicture(Struct, frozen=True):
    """A region or a hall. A cloud site has places; a rack site has racks, lanes of fabric and mounts."""

    name: str
    kind: str
    facts: tuple[str, ...]
    places: tuple[PlacePicture, ...] = ()
    fabric: str = ""
    lanes: int = 0
    racks: tuple[RackPicture, ...] = ()
    rack_words: str = ""
    hosts: str = ""
    stores: tuple[StorePicture, ...] = ()


def fleet_pictures(verdict: Verdict) -> tuple[SitePicture, ...]:
    """Return the sites of the fleet in the order of the fleet file."""
    plan, fleet = verdict.after.plan, verdict.after.fleet
    if plan is None or fleet is None:
        return ()
    figures = {each.site: each.after for each in verdict.racks}
    return (
        *(_cloud_site(site) for site in plan.cloud),
        *_rack_sites(plan, fleet.spec, figures),
    )


# -- cloud


def _cloud_site(site: CloudSitePlan) -> SitePicture:
    places: dict[tuple[str, ...], tuple[list[GroupPicture], list[StorePicture]]] = {}

    def at(zones: Iterable[str]) -> tuple[list[GroupPicture], list[StorePicture]]:
        return places.setdefault(tuple(zones), ([], []))

    for zone in site.zones:
        at((zone,))
    for group in site.node_groups:
        at(group.zones)[0].append(_group(group))
    for system in site.lustre:
        speed = f", {system.throughput} MB/s/TiB" if system.throughput else ""
        facts = f"{system.capacity_gib:,} GiB{speed}{', EFA' if system.efa else ''}"
        kind = f"FSx for Lustre, {system.deployment}"
        at((system.zone,))[1].append(StorePicture(system.name, kind, facts, system.mount, bucket=False))
    for bucket in site.buckets:
        facts = "versioned" if bucket.versioning else "not versioned"
        if bucket.expire_days:
            facts += f", objects expire after {bucket.expire_days} d"
        at(())[1].append(StorePicture(bucket.name, "S3 bucket", facts, bucket.bucket, bucket=True))
    scheduler = "EKS" if site.scheduler == "kubernetes" else "Slurm"
    version = f" {site.kubernetes.version}" if site.kubernetes else ""
    return SitePicture(
        site.site,
        f"AWS {site.region}",
        (f"{scheduler}{version}", site.cidr, f"NAT: {site.nat}", f"zones {', '.join(site.zones)}"),
        tuple(
            PlacePicture(" + ".join(zones) or "Whole region", tuple(groups), tuple(stores))
            for zones, (groups, stores) in sorted(
                places.items(), key=lambda item: (not item[0], len(item[0]))
            )
            if groups or stores
        ),
    )


def _group(group: NodeGroupPlan) -> GroupPicture:
    capacity = group.capacity
    adapters = sum(1 for item in group.network_interfaces if item.interface_type != "interface")
    network = f"{adapters} EFA + 1 ENA a node" if adapters else "ENA"
    size = f"{capacity.desired:,} x {group.instance_type}"
    if capacity.min != capacity.max:
        size += f", {capacity.min:,} to {capacity.max:,}"
    bought = OPTIONS[capacity.kind]
    match capacity:
        case SpotPlan(on_demand_fallback=True):
            bought += ", else on demand"
        case CapacityBlockPlan(duration=length) | ExistingBlockPlan(duration=timedelta() as length):
            bought += f", {length.days} d, {capacity.start or 'earliest'}"
    others = f"or {', '.join(group.instance_types[1:])}" if len(group.instance_types) > 1 else ""
    scale, drawing = draw_nodes(group)
    return GroupPicture(
        name=group.name,
        option=capacity.kind,
        bought=bought,
        size=size,
        gpus=_accelerators(group),
        network=network + (", placement group" if group.placement_group else ""),
        efa=bool(adapters),
        note=others,
        scale=scale,
        drawing=drawing,
    )


def _accelerators(group: NodeGroupPlan) -> str:
    found = group.accelerator
    if found is None:
        return "no accelerators"
    return f"{found.count * group.capacity.max:,} {found.name} at maximum"


# -- racks


def _rack_sites(
    plan: FleetPlan, spec: FleetSpec, figures: dict[str, RackFigures | None]
) -> Iterable[SitePicture]:
    declared = {site.site: site for site in spec.onprem}
    for site in plan.onprem:
        yield _rack_site(site, declared[site.site], figures.get(site.site))


def _rack_site(site: OnPremSitePlan, declared: OnPremSite, figures: RackFigures | None) -> SitePicture:
    nodes = [host.name for host in site.hosts if host.role == "gpu"]
    units = figures.rack_units // figures.nodes if figures and figures.rack_units and figures.nodes else None
    racks, words = _racks(site, declared, nodes, units or SYSTEM_UNITS)
    speed = f"{site.rack.link_gbps} Gb/s a port"
    kind = "InfiniBand" if site.fabric.kind == "infiniband" else "RoCE"
    rail = site.fabric.topology == "rail-optimized"
    return SitePicture(
        name=site.site,
        kind=f"Racks of {site.system}",
        facts=(
            "Slurm" if site.scheduler == "slurm" else "Kubernetes",
            f"{len(nodes):,} systems",
            f"{len(nodes) * site.gpus_per_node:,} {site.gpu}",
            *_power(figures),
        ),
        fabric=f"{kind} {site.fabric.speed.upper()}, {speed}, {site.fabric.topology}"
        + (f": {site.gpus_per_node} rails" if rail else ""),
        lanes=site.gpus_per_node if rail else 1,
        racks=racks,
        rack_words=words,
        hosts=_other_hosts(site),
        stores=tuple(
            StorePicture(each.name, each.kind, each.source, each.mount, bucket=False)
            for each in declared.storage
        ),
    )


def _power(figures: RackFigures | None) -> tuple[str, ...]:
    if figures is None or figures.power_kw is None:
        return ("power unknown",)
    cooled = f", {figures.facility_kw:,.0f} kW with cooling" if figures.facility_kw is not None else ""
    return (f"{figures.power_kw:,.0f} kW{cooled}",)


def _racks(
    site: OnPremSitePlan, declared: OnPremSite, nodes: Sequence[str], units: int
) -> tuple[tuple[RackPicture, ...], str]:
    """Return the racks of the fleet file; else as many as their power requires; else one row."""
    named = [(rack.name, rack.nodes.hosts) for rack in declared.racks]
    in_one = nodes_in_a_rack(declared, site.power_kw_per_node)
    if named:
        placed = {host for _, hosts in named for host in hosts}
        left = [name for name in nodes if name not in placed]
        sets = [*named, *([("no rack named", tuple(left))] if left else [])]
        words = f"{len(named):,} racks, as in the fleet file"
    else:
        in_one = min(in_one or UNITS // units or 1, max(1, UNITS // units))
        chunks = [nodes[start : start + in_one] for start in range(0, len(nodes), in_one)]
        sets = [(fold_hosts(chunk), tuple(chunk)) for chunk in chunks]
        count = f"{len(sets):,} rack{'s' if len(sets) != 1 else ''} of up to {in_one} system"
        by = f" at {declared.power.per_rack} a rack" if declared.power is not None else ", by height"
        words = f"{count}{'s' if in_one != 1 else ''}{by}; the fleet file has no rack names"
    scale = round_up(len(sets), _RACKS)
    if scale > 1:
        words += f"; each rack drawn represents {scale}"
    labelled = len(sets) <= _LABELLED
    gpus = site.gpus_per_node if labelled else 0
    return tuple(
        RackPicture(name if labelled else "", draw_rack(name, len(hosts), units, gpus))
        for name, hosts in sets[::scale]
    ), words


def _other_hosts(site: OnPremSitePlan) -> str:
    parts = []
    for role, word in (("controller", "controllers"), ("login", "login hosts")):
        names = [host.name for host in site.hosts if host.role == role]
        if names:
            parts.append(f"{word} {fold_hosts(names)}")
    return "; ".join(parts)
