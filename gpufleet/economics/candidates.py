"""Places where a job can run: node groups and sites of a fleet, those it could add, and places of the job."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.catalog import Catalog
from gpufleet.catalog.gpu_speeds import gpu_speeds
from gpufleet.economics.job_file import OwnPlace
from gpufleet.economics.quantities import GIB
from gpufleet.economics.usage_sites import gpu_hour_price
from gpufleet.kinds import CapacityKind
from gpufleet.plan.capacity_models import CapacityBlockPlan
from gpufleet.plan.models import FleetPlan, NodeGroupPlan, OnPremSitePlan
from gpufleet.pricing.models import FleetCost
from gpufleet.pricing.rates import Prices, UnpricedError
from gpufleet.spec.quantity import Moment

Kind = CapacityKind | Literal["on-premises"]


class Candidate(Struct, frozen=True):
    """A place and a way to buy its nodes.

    `nodes` is the most that it can have, None without a limit in the fleet file. `node_hour` is USD, None if
    unknown, with `reason`. `start_h` is when nodes are ready at the earliest, None if it depends on an offer.
    `lasts_h` limits a Capacity Block, and `block_days` are the lengths of one that could be bought. `power_w`
    is that of a node, `power_limit_w` that of the site.
    """

    place: str
    site: str
    region: str | None
    kind: Kind
    gpu: str
    instance_type: str | None
    gpus_per_node: int
    memory_bytes: float | None
    nodes: int | None
    node_hour: float | None
    source: str
    date: str | None
    start_h: float | None
    added: bool = False
    fallback_hour: float | None = None
    lasts_h: float | None = None
    block_days: tuple[int, ...] = ()
    power_w: float | None = None
    power_limit_w: float | None = None
    note: str = ""
    reason: str = ""

    @property
    def peak_flops(self) -> float | None:
        """The dense peak of a GPU, None if unknown."""
        speed = gpu_speeds().get(self.gpu)
        return None if speed is None else speed.tflops * 1e12


def candidates(
    plan: FleetPlan,
    cost: FleetCost,
    catalog: Catalog,
    own: Sequence[OwnPlace],
    gpus: Sequence[str],
    now: dt.datetime,
) -> list[Candidate]:
    """Return all places, those of the fleet first. `gpus` are kinds of GPUs that could be added."""
    found: list[Candidate] = []
    for group in plan.node_groups:
        region = next(site.region for site in plan.cloud if site.site == group.site)
        found += _of_group(group, region, catalog, now)
    found += [_of_racks(site, catalog, cost) for site in plan.onprem if site.nodes]
    found += [_of_own(place) for place in own]
    have = {(each.region, each.instance_type, each.kind) for each in found}
    for site in {each.region: each for each in plan.cloud}.values():
        for each in _added(site.site, site.region, catalog, gpus):
            if (each.region, each.instance_type, each.kind) not in have:
                found.append(each)
    return found


def _of_group(group: NodeGroupPlan, region: str, catalog: Catalog, now: dt.datetime) -> Iterator[Candidate]:
    capacity = group.capacity
    if not group.gpus_per_node:
        return
    for name in dict.fromkeys(group.instance_types):
        base = _cloud(f"{group.site}/{group.name}", group.site, region, name, capacity.kind, catalog)
        base = replace(base, nodes=capacity.max)
        if isinstance(capacity, CapacityBlockPlan):
            starts = max(Moment.parse(capacity.start).after(now).total_seconds(), 0.0) / 3600
            base = replace(
                base, start_h=starts, lasts_h=capacity.duration_hours, note="the block is paid upfront, once"
            )
        elif capacity.kind == "odcr":
            base = replace(base, note="the reservation is paid, used or not")
        elif capacity.kind == "spot" and getattr(capacity, "on_demand_fallback", False):
            other = _cloud("", group.site, region, name, "on-demand", catalog)
            base = replace(base, fallback_hour=other.node_hour)
        yield base


def _of_racks(site: OnPremSitePlan, catalog: Catalog, cost: FleetCost) -> Candidate:
    price = gpu_hour_price(site, cost)
    memory = catalog.systems[site.system].gpu_memory_gib if site.system in catalog.systems else None
    power = site.power_kw_per_node
    return Candidate(
        place=site.site,
        site=site.site,
        region=None,
        kind="on-premises",
        gpu=site.gpu,
        instance_type=None,
        gpus_per_node=site.gpus_per_node,
        memory_bytes=None if memory is None else memory * GIB,
        nodes=site.nodes,
        node_hour=None if price.price is None else price.price * site.gpus_per_node,
        source=price.basis,
        date=cost.oldest_price,
        start_h=0.0,
        power_w=None if power is None else float(power) * 1000,
        note="if its queue is empty" + ("" if price.owned else "; the price has no purchase price"),
        reason=price.reason,
    )


def _of_own(place: OwnPlace) -> Candidate:
    power, limit = place.power_per_node, place.power_limit
    return Candidate(
        place=place.name,
        site=place.name,
        region=None,
        kind="on-premises",
        gpu=place.gpu,
        instance_type=None,
        gpus_per_node=place.gpus_per_node,
        memory_bytes=float(place.gpu_memory.bytes),
        nodes=place.nodes,
        node_hour=None if place.price is None else float(place.price.amount),
        source="" if place.price is None else "job file",
        date=None,
        start_h=0.0,
        power_w=None if power is None else float(power.kw) * 1000,
        power_limit_w=None if limit is None else float(limit.kw) * 1000,
        reason="" if place.price is not None else f"the job file has no price of {place.name}",
    )


def _added(site: str, region: str, catalog: Catalog, gpus: Sequence[str]) -> Iterator[Candidate]:
    """Yield the largest type of each kind of GPU that the region has, in each way it is sold."""
    for gpu in dict.fromkeys(gpus):
        types = [
            item
            for item in catalog.instances.values()
            if item.gpu == gpu and item.gpu_count and (region in item.on_demand or region in item.regions)
        ]
        most = max((item.gpu_count for item in types), default=0)
        for item in sorted((each for each in types if each.gpu_count == most), key=lambda each: each.name):
            kinds: list[CapacityKind] = ["on-demand", "spot", "capacity-block"]
            for kind in kinds:
                if kind not in item.usage_classes:
                    continue
                found = _cloud(f"{site} + {item.name}", site, region, item.name, kind, catalog)
                if kind == "capacity-block":
                    rules = catalog.capacity_block_rules
                    found = replace(
                        found,
                        nodes=rules.max_instances_per_block,
                        start_h=None,
                        block_days=tuple(
                            day
                            for day in range(1, rules.weekly_steps_up_to_days + 1)
                            if rules.allows_days(day)
                        ),
                        note="start by AWS's offer; whole days are paid",
                    )
                yield replace(found, added=True)


def _cloud(place: str, site: str, region: str, name: str, kind: CapacityKind, catalog: Catalog) -> Candidate:
    item = catalog.instance(name)
    hourly, source, date, note, reason = None, "", None, "", ""
    if kind == "spot" and catalog.spot(name, region) is None:
        reason = f"no spot price of {name} in {region} is known"
    else:
        try:
            rate = Prices(catalog, region).node(name, kind)
        except UnpricedError as error:
            reason = str(error)
        else:
            hourly, source, date = float(rate.expected), rate.source, rate.date
            note = rate.note if rate.estimated else ""
    return Candidate(
        place=place,
        site=site,
        region=region,
        kind=kind,
        gpu=item.gpu or "",
        instance_type=name,
        gpus_per_node=item.gpu_count,
        memory_bytes=None if item.gpu_memory_gib is None else item.gpu_memory_gib * GIB,
        nodes=None,
        node_hour=hourly,
        source=source,
        date=date,
        start_h=START_H,
        note=note,
        reason=reason,
    )


START_H = 10 / 60
"""Hours from a request until cloud nodes are ready; no source: capacity decides."""
