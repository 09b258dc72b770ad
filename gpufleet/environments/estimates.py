"""Estimates for what has no known price, from where prices are known: a budget has to hold them as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from gpufleet.catalog import Catalog
from gpufleet.environments.choices import DEFAULT_REGION
from gpufleet.plan import build_plan
from gpufleet.plan.cost.compute import instance_rate
from gpufleet.plan.models import HOURS_PER_MONTH, CostLine, FleetPlan
from gpufleet.plan.names import group_resource_name, site_resource_name
from gpufleet.spec.models import FleetSpec


@dataclass(frozen=True, slots=True)
class Assumed:
    """What budget-unknown-cost takes for `count` resources under a name: `amount` USD a month each."""

    name: str
    amount: Decimal
    why: str
    count: int = 1

    @property
    def total(self) -> Decimal:
        """Of all resources that the name covers."""
        return self.count * self.amount


def estimates(spec: FleetSpec, plan: FleetPlan, catalog: Catalog) -> Iterator[Assumed]:
    """An amount for everything in the plan without a price, at its maximum size.

    In the cloud it is what the same costs in the region whose prices are known, and nodes count at
    their on-demand price, which spot does not exceed. A system of unknown power counts as the known
    one that draws most.
    """
    if not plan.cost.unknown:
        return
    strongest = max(catalog.systems.values(), key=lambda system: system.power_kw_max or 0).name
    cloud = tuple(site.model_copy(update={"region": DEFAULT_REGION}) for site in spec.cloud)
    onprem = tuple(
        site.model_copy(update={"system": strongest})
        if catalog.system(site.system).power_kw_max is None
        else site
        for site in spec.onprem
    )
    twin = build_plan(spec.model_copy(update={"cloud": cloud, "onprem": onprem}), catalog)
    known = {(line.site, line.owner, line.kind) for line in plan.cost.lines}
    missing = [line for line in twin.cost.lines if (line.site, line.owner, line.kind) not in known]
    for site in plan.cloud:
        prefix = site_resource_name(plan.fleet, plan.environment, site.site)
        groups = {group.name for group in site.node_groups}
        for group in site.node_groups:
            kind = group.capacity.kind
            if any(instance_rate(catalog, each, site.region, kind) is None for each in group.instance_types):
                prices = [catalog.on_demand(each, DEFAULT_REGION).amount for each in group.instance_types]
                dearest = max(price for price in prices if price is not None)
                name = group_resource_name(plan.fleet, plan.environment, site.site, group.name)
                what = f"{group.capacity.max} x {group.instance_type} on demand in {DEFAULT_REGION}"
                amount = group.capacity.max * HOURS_PER_MONTH * dearest
                yield Assumed(f"{name}/compute", _whole(amount), what)
        for line in missing:
            if line.site == site.site and not (line.kind == "compute" and line.owner in groups):
                gateways = {"none": 1, "single": 1, "per-zone": len(site.zones)}[site.nat]
                yield _of_line(line, prefix, gateways)
    for line in missing:
        if line.kind == "power":
            what = f"electricity as of {strongest}, since the system's power is not known"
            yield Assumed(line.site, _whole(_high(line)), what)


def _of_line(line: CostLine, prefix: str, gateways: int) -> Assumed:
    largest = ", at maximum size" if line.monthly.low != line.monthly.high else ""
    what = f"{line.what} in {DEFAULT_REGION}{largest}"
    if line.kind == "network":
        return Assumed(f"{prefix}-nat-*", _whole(_high(line) / gateways), f"a gateway: {what}", gateways)
    if line.kind == "control-plane":
        return Assumed(prefix, _whole(_high(line)), what)
    suffix = "/compute" if line.kind == "compute" else ""
    return Assumed(f"{prefix}-{line.owner}{suffix}", _whole(_high(line)), what)


def _high(line: CostLine) -> Decimal:
    return line.monthly.high or Decimal(0)


def _whole(amount: Decimal) -> Decimal:
    return max(Decimal(1), amount.to_integral_value(ROUND_CEILING))
