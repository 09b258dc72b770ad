"""A function that stops the growth of node groups when their budget is spent, and its own small role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pulumi_aws as aws

from gpufleet.components.base import AwsContext, Component
from gpufleet.components.budget_function import (
    BudgetFunctionArgs,
    BudgetGroups,
    allow,
    arn_of,
    budget_function,
    common_statements,
)
from gpufleet.components.functions import stop_scale_out as code
from gpufleet.kinds import STOP_SUFFIX


@dataclass(frozen=True, kw_only=True)
class GrowingSite:
    """A region with node groups, and the EKS cluster that they belong to; None for Auto Scaling groups."""

    name: str
    region: str
    cluster: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeniedPool:
    """A node group that Karpenter scales: the name of its role, that of the policy that denies the group's
    launches, and the most nodes that there are."""

    role: str
    policy: str
    most: int


@dataclass(frozen=True, kw_only=True)
class ScaleOutStopArgs(BudgetGroups):
    """Which groups a breach of the budget stops. `parameter` is the name of the SSM parameter that keeps all
    maxima, `pools` has the groups of Karpenter by their names."""

    sites: Sequence[GrowingSite]
    parameter: str
    pools: Mapping[str, DeniedPool] = field(default_factory=dict)


def function_name(budget: str) -> str:
    """Return the name of the function of a budget. It is fixed, since its log group has it."""
    return f"{budget}{STOP_SUFFIX}"


def scale_out_stop(
    component: Component,
    name: str,
    args: ScaleOutStopArgs,
    tags: Mapping[str, str],
    context: AwsContext,
    topic: aws.sns.Topic,
    key: aws.kms.Key,
) -> aws.lambda_.Function:
    """Create the function of the budget `name`, subscribed to its topic.

    It changes only groups that have all of `tags`, and can neither terminate instances nor change a size.
    """
    label = function_name(name)
    stopped = aws.ssm.Parameter(
        label,
        name=args.parameter,
        description="Maxima of node groups that a breach of the budget stopped",
        type="String",
        # Names and numbers, no secret: `value` would make it one in the state.
        insecure_value="{}",
        tier="Intelligent-Tiering",
        tags=component.tags(label),
        opts=component.child(ignore_changes=["insecureValue", "tier"]),
    )
    return budget_function(
        component,
        BudgetFunctionArgs(
            label=label,
            description=f"Stops the growth of node groups when the budget {name} is spent",
            code=code,
            settings=_settings(name, args, tags),
            statements=_statements(name, args, tags, context, topic, key),
            after=[stopped],
        ),
        context,
        topic,
        key,
    )


def _settings(name: str, args: ScaleOutStopArgs, tags: Mapping[str, str]) -> dict[str, Any]:
    return {
        "budget": name,
        "parameter": args.parameter,
        "tags": dict(tags),
        "budgets": args.by_budget(name),
        "launched": dict(args.launched),
        "pools": {group: asdict(pool) for group, pool in args.pools.items()},
        "sites": [
            {"name": site.name, "region": site.region, "cluster": site.cluster or ""} for site in args.sites
        ],
    }


def _statements(
    name: str,
    args: ScaleOutStopArgs,
    tags: Mapping[str, str],
    context: AwsContext,
    topic: aws.sns.Topic,
    key: aws.kms.Key,
) -> list[dict[str, Any]]:
    ours = {f"aws:ResourceTag/{tag}": value for tag, value in tags.items()}
    clusters = [site for site in args.sites if site.cluster]
    regions = list(dict.fromkeys(site.region for site in args.sites if not site.cluster))
    common = common_statements(function_name(name), list(args.by_budget(name)), context, topic, key)
    found: list[dict[str, Any]] = [
        common["budgets"],
        allow(
            ["ssm:GetParameter", "ssm:PutParameter"],
            [arn_of(context, "ssm", context.region, f"parameter{args.parameter}")],
        ),
        common["topic"],
        common["key"],
        common["logs"],
    ]
    scaling = "autoScalingGroup:*:autoScalingGroupName/*"
    if regions:
        # Auto Scaling has no permission to list single groups.
        found.append(allow(["autoscaling:DescribeAutoScalingGroups"], ["*"]))
        found.append(
            allow(
                ["autoscaling:UpdateAutoScalingGroup"],
                [arn_of(context, "autoscaling", region, scaling) for region in regions],
                ours,
            )
        )
    for site in clusters:
        found += [
            allow(["eks:ListNodegroups"], [arn_of(context, "eks", site.region, f"cluster/{site.cluster}")]),
            allow(
                ["eks:DescribeNodegroup", "eks:UpdateNodegroupConfig"],
                [arn_of(context, "eks", site.region, f"nodegroup/{site.cluster}/*/*")],
                ours,
            ),
            # EKS tags the Auto Scaling groups that it makes with its own tags only.
            allow(
                ["autoscaling:SuspendProcesses"],
                [arn_of(context, "autoscaling", site.region, scaling)],
                {"aws:ResourceTag/eks:cluster-name": site.cluster},
            ),
        ]
    for role in dict.fromkeys(pool.role for pool in args.pools.values()):
        policies = [pool.policy for pool in args.pools.values() if pool.role == role]
        arns = [arn_of(context, "iam", "", f"policy/{policy}") for policy in policies]
        # It can attach these policies to this role, which deny, and no other.
        attach = allow(["iam:AttachRolePolicy"], [arn_of(context, "iam", "", f"role/{role}")])
        found.append({**attach, "Condition": {"ArnEquals": {"iam:PolicyARN": arns}}})
    return found
