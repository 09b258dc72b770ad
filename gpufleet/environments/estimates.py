"""Estimates for resources without a known price, from a region with known prices: a budget includes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal

from gpufleet.catalog import Catalog
from gpufleet.environments.choices import DEFAULT_REGION
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan, NodeGroupPlan
from gpufleet.plan.names import (
    FALLBACK_SUFFIX,
    gateway_resource_name,
    group_resource_name,
    site_resource_name,
)
from gpufleet.pricing import CostLine, price_plan
from gpufleet.pricing.assume import key_for
from gpufleet.pricing.rates import MONTH, Prices
from gpufleet.spec.models import FleetSpec


@dataclass(frozen=True, slots=True)
class CostAssumption:
    """An amount for budget-unknown-cost: `count` resources under a name, `amount` USD a month each."""

    name: str
    amount: Decimal
    why: str
    count: int = 1

    @property
    def total(self) -> Decimal:
        """Return the sum of all resources under the name."""
        return self.count * self.amount


def estimates(spec: FleetSpec, plan: FleetPlan, catalog: Catalog) -> Iterator[CostAssumption]:
    """Yield an amount for everything in the plan without a price, at maximum size.

    In the cloud it is the price in the region with known prices; nodes count at their on-demand price, which
    spot does not exceed. A system of unknown power counts as the known one with the highest power.
    """
    unknown = price_plan(plan, catalog).unknown
    if not unknown:
        return
    twins = {(line.type, line.name, line.kind): line for line in _twin_lines(spec, catalog)}
    groups = {
        group_resource_name(plan.fleet, plan.environment, group.site, group.name): group
        for group in plan.node_groups
    }
    gateways = {
        gateway_resource_name(site_resource_name(plan.fleet, plan.environment, site.site), zone): site.site
        for site in plan.cloud
        for zone in site.nat_zones
    }
    found: dict[str, CostAssumption] = {}
    for line in unknown:
        group = groups.get(line.name.removesuffix(FALLBACK_SUFFIX)) if line.kind == "compute" else None
        twin = twins.get((line.type, line.name, line.kind))
        if group is not None:
            new = _nodes(key_for(line), group, catalog)
        elif line.name in gateways and twin is not None:
            prefix = site_resource_name(plan.fleet, plan.environment, gateways[line.name])
            new = CostAssumption(
                gateway_resource_name(prefix, "*"), _whole(_most(twin)), f"a gateway: {_same(twin)}"
            )
        elif twin is not None:
            why = _same(twin) if line.type else f"electricity as of {_strongest(catalog)}, at full load"
            new = CostAssumption(key_for(line), _whole(_most(twin)), why)
        else:
            continue
        have = found.get(new.name)
        if have is not None:
            new = replace(have, amount=max(have.amount, new.amount), count=have.count + 1)
        found[new.name] = new
    yield from found.values()


def _twin_lines(spec: FleetSpec, catalog: Catalog) -> tuple[CostLine, ...]:
    """Return the cost lines of the same fleet in the region with known prices."""
    cloud = tuple(site.model_copy(update={"region": DEFAULT_REGION}) for site in spec.cloud)
    onprem = tuple(
        site.model_copy(update={"system": _strongest(catalog)})
        if catalog.system(site.system).power_kw_max is None
        else site
        for site in spec.onprem
    )
    twin = spec.model_copy(update={"cloud": cloud, "onprem": onprem})
    return tuple(line for line in price_plan(build_plan(twin, catalog), catalog).lines if line.known)


def _strongest(catalog: Catalog) -> str:
    return max(catalog.systems.values(), key=lambda system: system.power_kw_max or 0).name


def _nodes(key: str, group: NodeGroupPlan, catalog: Catalog) -> CostAssumption:
    prices = Prices(catalog, DEFAULT_REGION)
    most = max(prices.node(each, "on-demand").expected for each in group.instance_types)
    what = f"{group.capacity.max} x {group.instance_type} on demand in {DEFAULT_REGION}"
    return CostAssumption(key, _whole(group.capacity.max * MONTH * most), what)


def _same(twin: CostLine) -> str:
    largest = ", at maximum size" if twin.minimum != twin.maximum else ""
    return f"{twin.what} in {DEFAULT_REGION}{largest}"


def _most(twin: CostLine) -> Decimal:
    return twin.maximum or Decimal(0)


def _whole(amount: Decimal) -> Decimal:
    return max(Decimal(1), amount.to_integral_value(ROUND_CEILING))
