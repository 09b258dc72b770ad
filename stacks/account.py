"""Resources of a stack for its whole AWS account: the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.budget import AnomalyArgs, BudgetGuard, BudgetGuardArgs, CapArgs
from gpufleet.components.scale_out_stop import DeniedPool, GrowingSite, ScaleOutStopArgs
from gpufleet.components.spot_drain import DrainedSite, SpotDrainArgs
from gpufleet.errors import InputError
from gpufleet.plan.budget_models import GrowingGroup
from gpufleet.plan.marks import TAG_PREFIX
from gpufleet.plan.models import CloudSitePlan, FleetPlan
from gpufleet.plan.names import (
    BUDGET_REGION,
    BUDGET_SUFFIX,
    KARPENTER_SUFFIX,
    STOP_POLICY_SUFFIX,
    cap_name,
    drained_groups_path,
    environment_resource_name,
    group_resource_name,
    site_resource_name,
    stopped_groups_parameter,
)
from gpufleet.pricing.cloud_budget import CloudBudget, cloud_budgets
from gpufleet.stacks.karpenter import in_reserved_pool
from gpufleet.stacks.settings import StackSettings


def account_provider(plan: FleetPlan, settings: StackSettings) -> aws.Provider:
    """Create the provider of the account's own resources."""
    name = environment_resource_name(plan.fleet, plan.environment)
    return aws.Provider(f"{name}-account", region=BUDGET_REGION, **settings.aws_provider)


def build_account(plan: FleetPlan, provider: aws.Provider) -> dict[str, Any]:
    """Create the budgets with their alerts; return their exports."""
    whole, *caps = cloud_budgets(plan)
    budget = plan.budget
    guard = BudgetGuard(
        f"{environment_resource_name(plan.fleet, plan.environment)}{BUDGET_SUFFIX}",
        BudgetGuardArgs(
            monthly_usd=whole.monthly,
            thresholds=budget.alerts,
            cost_tags=whole.tags,
            emails=budget.notify,
            caps=[
                CapArgs(name=cap_name(cap.kind, cap.name), monthly_usd=cap.monthly, cost_tags=cap.tags)
                for cap in caps
            ],
            stop=_stop(plan, caps),
            drain=_drain(plan, caps),
            anomalies=None
            if budget.anomalies is None
            else AnomalyArgs(
                above_usd=budget.anomalies.above,
                tag=(f"{TAG_PREFIX}environment", plan.environment),
                monitor_arn=budget.anomalies.monitor,
            ),
            tags=plan.tags,
        ),
        pulumi.ResourceOptions(providers=[provider]),
    )
    return {
        "name": guard.budget_name,
        "topic_arn": guard.topic_arn,
        "monthly_usd": str(whole.monthly),
        "on_breach": budget.on_breach,
    }


def _stop(plan: FleetPlan, caps: Sequence[CloudBudget]) -> ScaleOutStopArgs | None:
    if not plan.budget.stops_growth:
        return None
    growing = plan.budget.growing_groups
    names = {group.name for group in growing}
    return ScaleOutStopArgs(
        sites=[
            GrowingSite(
                name=site.site,
                region=site.region,
                cluster=site_resource_name(plan.fleet, plan.environment, site.site)
                if site.kubernetes
                else None,
            )
            for site in plan.cloud
            if site.slurm is None
        ],
        launched={name: most for name, most in plan.launched_maxima().items() if name in names},
        pools=_pools(plan),
        groups=[group.name for group in growing],
        caps=_covered(growing, caps),
        parameter=stopped_groups_parameter(plan.fleet, plan.environment),
    )


def _pools(plan: FleetPlan) -> dict[str, DeniedPool]:
    """Return the groups whose nodes Karpenter buys, by the names of their resources."""
    found: dict[str, DeniedPool] = {}
    for site in plan.cloud:
        name = site_resource_name(plan.fleet, plan.environment, site.site)
        for group in site.node_groups:
            if group.node_pool is not None and not in_reserved_pool(group):
                label = group_resource_name(plan.fleet, plan.environment, site.site, group.name)
                found[label] = DeniedPool(
                    role=f"{name}{KARPENTER_SUFFIX}",
                    policy=f"{label}{STOP_POLICY_SUFFIX}",
                    most=group.node_pool.most,
                )
    return found


def _drain(plan: FleetPlan, caps: Sequence[CloudBudget]) -> SpotDrainArgs | None:
    at = plan.budget.drain_spot_at
    if at is None or not plan.budget.drains_spot:
        return None
    spot = plan.budget.spot_groups
    names, sites = {group.name for group in spot}, {group.site for group in spot}
    return SpotDrainArgs(
        sites=[_drained_site(plan, site) for site in plan.cloud if site.slurm is None and site.site in sites],
        launched={name: most for name, most in plan.launched_maxima().items() if name in names},
        groups=[group.name for group in spot],
        at_percent=at,
        caps=_covered(spot, caps),
        path=drained_groups_path(plan.fleet, plan.environment),
    )


def _drained_site(plan: FleetPlan, site: CloudSitePlan) -> DrainedSite:
    if site.interruptions is None:
        raise InputError(
            f"site {site.site} has spot nodes that a breach of the budget drains, and no handler for that",
            remedy=f"add `interruptions: {{}}` to {site.site} in the fleet file",
        )
    return DrainedSite(
        name=site.site,
        region=site.region,
        queue=site.interruptions.queue,
        cluster=site_resource_name(plan.fleet, plan.environment, site.site) if site.kubernetes else None,
        tags={f"{TAG_PREFIX}site": site.site},
    )


def _covered(groups: Sequence[GrowingGroup], caps: Sequence[CloudBudget]) -> dict[str, list[str]]:
    """Return the groups of each site and team with a cap, by the name of its budget."""
    return {
        cap_name(cap.kind, cap.name): [
            group.name for group in groups if (group.site if cap.kind == "site" else group.team) == cap.name
        ]
        for cap in caps
    }
