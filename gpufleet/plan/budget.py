"""The budget's part of a plan, and the node groups that a breach stops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

from gpufleet.plan.assumptions import assumptions_of
from gpufleet.plan.budget_models import AnomaliesPlan, BudgetPlan, GrowingGroup
from gpufleet.plan.capacity_models import OnDemandPlan, SpotPlan
from gpufleet.plan.models import CloudSitePlan
from gpufleet.plan.names import FALLBACK_SUFFIX, SYSTEM, group_resource_name
from gpufleet.spec.models import FleetSpec


def plan_budget(spec: FleetSpec, cloud: Iterable[CloudSitePlan]) -> BudgetPlan:
    """Return the plan of the fleet file's budget for these cloud sites."""
    budget, anomalies = spec.budget, spec.budget.anomalies
    return BudgetPlan(
        monthly=budget.monthly.amount,
        currency=budget.monthly.currency,
        alerts=tuple(Decimal(alert.value) for alert in budget.alerts),
        on_breach=budget.on_breach,
        notify=budget.notify,
        assume=assumptions_of(spec),
        sites={name: cap.amount for name, cap in budget.sites.items()},
        teams={name: cap.amount for name, cap in budget.teams.items()},
        growing_groups=tuple(group for site in cloud for group in _growing(spec, site)),
        anomalies=AnomaliesPlan(anomalies.above.amount, anomalies.monitor) if anomalies else None,
    )


def _growing(spec: FleetSpec, site: CloudSitePlan) -> Iterator[GrowingGroup]:
    """Yield the groups whose cost follows their size."""

    def growing(group: str, team: str | None = None, suffix: str = "") -> GrowingGroup:
        name = group_resource_name(spec.fleet, spec.environment, site.site, group)
        return GrowingGroup(f"{name}{suffix}", site.site, team)

    if site.kubernetes is not None:
        yield growing(SYSTEM)
    for group in site.node_groups:
        if isinstance(group.capacity, OnDemandPlan | SpotPlan):
            yield growing(group.name, group.team)
        falls_back = isinstance(group.capacity, SpotPlan) and group.capacity.on_demand_fallback
        if falls_back and site.slurm is None:
            yield growing(group.name, group.team, FALLBACK_SUFFIX)
