"""Resources of a stack for its whole AWS account: the budget."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.budget import AnomalyArgs, BudgetGuard, BudgetGuardArgs, CapArgs
from gpufleet.components.scale_out_stop import GrowingSite, ScaleOutStopArgs
from gpufleet.plan.marks import TAG_PREFIX
from gpufleet.plan.models import FleetPlan
from gpufleet.plan.names import (
    BUDGET_SUFFIX,
    environment_resource_name,
    site_resource_name,
    stopped_groups_parameter,
)
from gpufleet.pricing.cloud_budget import cloud_budgets
from gpufleet.stacks.settings import StackSettings

BUDGET_REGION = "us-east-1"
"""The region of AWS Budgets; its topic is in the same region."""


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
                CapArgs(name=f"{cap.kind}-{cap.name}", monthly_usd=cap.monthly, cost_tags=cap.tags)
                for cap in caps
            ],
            stop=_stop(plan),
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


def _stop(plan: FleetPlan) -> ScaleOutStopArgs | None:
    if not plan.budget.stops_growth:
        return None
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
        ],
        groups=plan.budget.growing,
        parameter=stopped_groups_parameter(plan.fleet, plan.environment),
    )
