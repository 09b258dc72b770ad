"""The budget's part of a plan, and the node groups that a breach stops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

from gpufleet.kinds import DRAIN_SPOT_AT
from gpufleet.plan.assumptions import assumptions_of
from gpufleet.plan.budget_models import AnomaliesPlan, BudgetPlan, GrowingGroup
from gpufleet.plan.capacity_models import OnDemandPlan, SpotPlan
from gpufleet.plan.models import CloudSitePlan
from gpufleet.plan.names import FALLBACK_SUFFIX, SYSTEM, group_resource_name
from gpufleet.spec.models import Budget, FleetSpec


def plan_budget(spec: FleetSpec, cloud: Iterable[CloudSitePlan]) -> BudgetPlan:
    """Return the plan of the fleet file's budget for these cloud sites."""
    budget, anomalies = spec.budget, spec.budget.anomalies
    return BudgetPlan(
        monthly=budget.monthly.amount,
        currency=budget.monthly.currency,
        alerts=tuple(Decimal(alert.value) for alert in budget.alerts),
        on_breach=budget.on_breach,
        drain_spot_at=_drain_spot_at(budget),
        notify=budget.notify,
        assume=assumptions_of(spec),
        sites={name: cap.amount for name, cap in budget.sites.items()},
        teams={name: cap.amount for name, cap in budget.teams.items()},
        growing_groups=tuple(group for site in cloud for group in _growing(spec, site)),
        spot_groups=tuple(group for site in cloud for group in _spot(spec, site)),
        anomalies=AnomaliesPlan(anomalies.above.amount, anomalies.monitor) if anomalies else None,
    )


def _drain_spot_at(budget: Budget) -> Decimal | None:
    if budget.on_breach != "drain-spot":
        return None
    return Decimal(DRAIN_SPOT_AT if budget.drain_spot_at is None else budget.drain_spot_at.value)


def _growing(spec: FleetSpec, site: CloudSitePlan) -> Iterator[GrowingGroup]:
    """Yield the groups whose cost follows their size."""
    if site.kubernetes is not None:
        yield _named(spec, site, SYSTEM)
    for group in site.node_groups:
        if isinstance(group.capacity, OnDemandPlan | SpotPlan):
            yield _named(spec, site, group.name, group.team)
        falls_back = isinstance(group.capacity, SpotPlan) and group.capacity.on_demand_fallback
        if falls_back and site.slurm is None and group.node_pool is None:
            yield _named(spec, site, f"{group.name}{FALLBACK_SUFFIX}", group.team)


def _spot(spec: FleetSpec, site: CloudSitePlan) -> Iterator[GrowingGroup]:
    """Yield the groups that buy spot; the on-demand part of a group that falls back is none of them."""
    for group in site.node_groups:
        if isinstance(group.capacity, SpotPlan):
            yield _named(spec, site, group.name, group.team)


def _named(spec: FleetSpec, site: CloudSitePlan, group: str, team: str | None = None) -> GrowingGroup:
    return GrowingGroup(group_resource_name(spec.fleet, spec.environment, site.site, group), site.site, team)
