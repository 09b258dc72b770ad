"""A function that drains spot nodes when their budget is spent beyond a share, and its own small role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pulumi
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
from gpufleet.components.functions import drain_spot as code
from gpufleet.kinds import DRAIN_SUFFIX, DRAIN_TAG, DRAIN_TAG_VALUE


@dataclass(frozen=True, kw_only=True)
class DrainedSite:
    """A region with groups of spot nodes, the queue of their handler of notices (`NoticeQueue`), the EKS
    cluster that they belong to (None for Auto Scaling groups), and `tags` that only groups of the site have.
    """

    name: str
    region: str
    queue: str
    cluster: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SpotDrainArgs(BudgetGroups):
    """Which groups drain when `at_percent` of the budget are spent. `path` is the folder of the SSM
    parameters that keep the sizes of groups, one for each."""

    sites: Sequence[DrainedSite]
    at_percent: Decimal
    path: str


def function_name(budget: str) -> str:
    """Return the name of the function of a budget. It is fixed, since its log group has it."""
    return f"{budget}{DRAIN_SUFFIX}"


def spot_drain(
    component: Component,
    name: str,
    args: SpotDrainArgs,
    tags: Mapping[str, str],
    context: AwsContext,
    topic: aws.sns.Topic,
    key: aws.kms.Key,
) -> aws.lambda_.Function:
    """Create the function of the budget `name`, subscribed to its topic.

    It changes only groups that have all of `tags` and the tag of groups that drain (`NodeGroupArgs.drains`),
    which groups of other capacity than spot never have. It can end no instance: it sends notices.
    """
    label = function_name(name)
    records = [
        aws.ssm.Parameter(
            f"{group}{DRAIN_SUFFIX}",
            name=f"{args.path}/{group}",
            description="Sizes of a node group that a breach of the budget drains",
            type="String",
            # Numbers, no secret: `value` would make it one in the state.
            insecure_value="{}",
            tags=component.tags(f"{group}{DRAIN_SUFFIX}"),
            opts=component.child(ignore_changes=["insecureValue"]),
        )
        for group in args.groups
    ]
    return budget_function(
        component,
        BudgetFunctionArgs(
            label=label,
            description=f"Drains spot nodes when {args.at_percent:f}% of the budget {name} are spent",
            code=code,
            settings=_settings(name, args, tags),
            statements=_statements(name, args, tags, context, topic, key),
            after=records,
        ),
        context,
        topic,
        key,
    )


def _settings(name: str, args: SpotDrainArgs, tags: Mapping[str, str]) -> dict[str, Any]:
    return {
        "budget": name,
        "at": f"{args.at_percent:f}",
        "path": args.path,
        "tags": {**tags, DRAIN_TAG: DRAIN_TAG_VALUE},
        "budgets": args.by_budget(name),
        "launched": dict(args.launched),
        "sites": [
            {
                "name": site.name,
                "region": site.region,
                "cluster": site.cluster or "",
                "queue": site.queue,
                "tags": dict(site.tags),
            }
            for site in args.sites
        ],
    }


def _statements(
    name: str,
    args: SpotDrainArgs,
    tags: Mapping[str, str],
    context: AwsContext,
    topic: aws.sns.Topic,
    key: aws.kms.Key,
) -> list[dict[str, Any]]:
    own = {f"aws:ResourceTag/{DRAIN_TAG}": DRAIN_TAG_VALUE}
    ours = {**{f"aws:ResourceTag/{tag}": value for tag, value in tags.items()}, **own}
    scaling = "autoScalingGroup:*:autoScalingGroupName/*"
    found: list[dict[str, Any]] = [
        *common_statements(function_name(name), list(args.by_budget(name)), context, topic, key).values(),
        allow(
            ["ssm:GetParameter", "ssm:PutParameter"],
            [arn_of(context, "ssm", context.region, f"parameter{args.path}/*")],
        ),
    ]
    if args.sites:
        # Auto Scaling has no permission to list single groups.
        found.append(allow(["autoscaling:DescribeAutoScalingGroups"], ["*"]))
        queues = [arn_of(context, "sqs", site.region, site.queue) for site in args.sites]
        found.append(allow(["sqs:GetQueueUrl", "sqs:SendMessage"], queues))
    regions = list(dict.fromkeys(site.region for site in args.sites if not site.cluster))
    if regions:
        found.append(
            allow(
                ["autoscaling:SuspendProcesses", "autoscaling:UpdateAutoScalingGroup"],
                [arn_of(context, "autoscaling", region, scaling) for region in regions],
                ours,
            )
        )
    for site in args.sites:
        if site.cluster:
            found += _cluster_statements(site, scaling, ours, own, context)
    return found


def _cluster_statements(
    site: DrainedSite,
    scaling: str,
    ours: Mapping[str, pulumi.Input[str]],
    own: Mapping[str, str],
    context: AwsContext,
) -> list[dict[str, Any]]:
    groups = [arn_of(context, "eks", site.region, f"nodegroup/{site.cluster}/*/*")]
    return [
        allow(["eks:ListNodegroups"], [arn_of(context, "eks", site.region, f"cluster/{site.cluster}")]),
        allow(["eks:DescribeNodegroup"], groups),
        allow(["eks:UpdateNodegroupConfig"], groups, ours),
        # Of the Auto Scaling groups that EKS makes, those of spot nodes have the tag besides EKS's own.
        allow(
            ["autoscaling:SuspendProcesses"],
            [arn_of(context, "autoscaling", site.region, scaling)],
            {"aws:ResourceTag/eks:cluster-name": site.cluster, **own},
        ),
    ]
