"""Resources of a stack for its whole AWS account: the budget."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.budget import BudgetGuard, BudgetGuardArgs
from gpufleet.plan.models import FleetPlan
from gpufleet.stacks.settings import StackSettings

BUDGET_REGION = "us-east-1"
"""The region of AWS Budgets; its topic is in the same region."""

COST_TAGS = ("gpufleet:fleet", "gpufleet:environment")
"""The tags that together select the resources of an environment of a fleet."""


def build_account(plan: FleetPlan, settings: StackSettings) -> dict[str, Any]:
    """Create the budget with its alerts; return its exports."""
    name = f"{plan.fleet}-{plan.environment}"
    provider = aws.Provider(f"{name}-account", region=BUDGET_REGION, **settings.aws_provider)
    guard = BudgetGuard(
        f"{name}-budget",
        BudgetGuardArgs(
            monthly_usd=plan.budget.monthly,
            thresholds=plan.budget.alerts,
            cost_tags={key: plan.tags[key] for key in COST_TAGS},
            emails=plan.budget.notify,
            tags=plan.tags,
        ),
        pulumi.ResourceOptions(providers=[provider]),
    )
    return {
        "name": guard.budget_name,
        "topic_arn": guard.topic_arn,
        "monthly_usd": str(plan.budget.monthly),
        "on_breach": plan.budget.on_breach,
    }
