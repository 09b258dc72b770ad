"""A function that stops the growth of node groups when their budget is spent, and its own small role."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import (
    AwsContext,
    Component,
    assume_role_policy,
    policy_document,
)
from gpufleet.components.functions import stop_scale_out as code
from gpufleet.kinds import LOG_RETENTION_DAYS, STOP_SUFFIX

RUNTIME = "python3.13"
"""Supported by Lambda until 30 June 2029 (AWS Lambda developer guide, "Lambda runtimes")."""

TIMEOUT_S = 300


@dataclass(frozen=True, kw_only=True)
class GrowingSite:
    """A region with node groups, and the EKS cluster that they belong to; None for Auto Scaling groups."""

    name: str
    region: str
    cluster: str | None = None


@dataclass(frozen=True, kw_only=True)
class ScaleOutStopArgs:
    """Which groups a breach of the budget stops: `groups` are values of their tag `Name`.

    `caps` has the groups that the breach of a further budget stops, by its name (`CapArgs.name`). `launched`
    has the most nodes of groups whose nodes Slurm launches, which are no groups of AWS. `parameter` is the
    name of the SSM parameter that keeps all maxima.
    """

    sites: Sequence[GrowingSite]
    groups: Sequence[str]
    caps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    launched: Mapping[str, int] = field(default_factory=dict)
    parameter: str


def function_name(budget: str) -> str:
    """Return the name of the function of a budget. It is fixed, since its log group has it."""
    return f"{budget}{STOP_SUFFIX}"


def log_group_name(budget: str) -> str:
    """Return the log group that Lambda writes to."""
    return f"/aws/lambda/{function_name(budget)}"


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
    logs = aws.cloudwatch.LogGroup(
        label,
        name=log_group_name(name),
        retention_in_days=LOG_RETENTION_DAYS,
        kms_key_id=key.arn,
        tags=component.tags(label),
        opts=component.child(),
    )
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
    role = aws.iam.Role(
        label,
        description=f"Stops the growth of node groups when the budget {name} is spent",
        assume_role_policy=assume_role_policy("lambda.amazonaws.com"),
        tags=component.tags(label),
        opts=component.child(),
    )
    policy = aws.iam.RolePolicy(
        label,
        role=role.id,
        policy=policy_document(_statements(name, args, tags, context, topic, key)),
        opts=component.child(),
    )
    function = aws.lambda_.Function(
        label,
        name=label,
        description=f"Stops the growth of node groups when the budget {name} is spent",
        role=role.arn,
        runtime=RUNTIME,
        architectures=["arm64"],
        handler="stop_scale_out.handler",
        code=pulumi.AssetArchive(
            {
                "stop_scale_out.py": pulumi.StringAsset(Path(code.__file__).read_text(encoding="utf-8")),
                code.SETTINGS: pulumi.StringAsset(json.dumps(_settings(name, args, tags), sort_keys=True)),
            }
        ),
        timeout=TIMEOUT_S,
        memory_size=256,
        environment=aws.lambda_.FunctionEnvironmentArgs(variables={"TOPIC_ARN": topic.arn}),
        tags=component.tags(label),
        opts=component.child(depends_on=[logs, policy, stopped]),
    )
    permission = aws.lambda_.Permission(
        label,
        function=function.name,
        action="lambda:InvokeFunction",
        principal="sns.amazonaws.com",
        source_arn=topic.arn,
        source_account=context.account_id,
        opts=component.child(),
    )
    aws.sns.TopicSubscription(
        label,
        topic=topic.arn,
        protocol="lambda",
        endpoint=function.arn,
        # Without its own messages, which would start it again.
        filter_policy=json.dumps({code.OWN_MESSAGE: [{"exists": False}]}),
        filter_policy_scope="MessageAttributes",
        opts=component.child(depends_on=[permission]),
    )
    return function


def _settings(name: str, args: ScaleOutStopArgs, tags: Mapping[str, str]) -> dict[str, Any]:
    return {
        "budget": name,
        "parameter": args.parameter,
        "tags": dict(tags),
        "budgets": {
            name: list(args.groups),
            **{f"{name}-{cap}": list(groups) for cap, groups in args.caps.items()},
        },
        "launched": dict(args.launched),
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
    def arn(service: str, region: pulumi.Input[str], rest: str) -> pulumi.Output[str]:
        return pulumi.Output.format(
            "arn:{0}:{1}:{2}:{3}:{4}", context.partition, service, region, context.account_id, rest
        )

    ours = {f"aws:ResourceTag/{tag}": value for tag, value in tags.items()}
    clusters = [site for site in args.sites if site.cluster]
    regions = list(dict.fromkeys(site.region for site in args.sites if not site.cluster))
    found: list[dict[str, Any]] = [
        _allow(
            ["budgets:ViewBudget"],
            [
                arn("budgets", "", f"budget/{each}")
                for each in (name, *(f"{name}-{cap}" for cap in args.caps))
            ],
        ),
        _allow(
            ["ssm:GetParameter", "ssm:PutParameter"],
            [arn("ssm", context.region, f"parameter{args.parameter}")],
        ),
        _allow(["sns:Publish"], [topic.arn]),
        _allow(["kms:GenerateDataKey*", "kms:Decrypt"], [key.arn]),
        _allow(
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            [arn("logs", context.region, f"log-group:{log_group_name(name)}:*")],
        ),
    ]
    scaling = "autoScalingGroup:*:autoScalingGroupName/*"
    if regions:
        # Auto Scaling has no permission to list single groups.
        found.append(_allow(["autoscaling:DescribeAutoScalingGroups"], ["*"]))
        found.append(
            _allow(
                ["autoscaling:UpdateAutoScalingGroup"],
                [arn("autoscaling", region, scaling) for region in regions],
                ours,
            )
        )
    for site in clusters:
        found += [
            _allow(["eks:ListNodegroups"], [arn("eks", site.region, f"cluster/{site.cluster}")]),
            _allow(
                ["eks:DescribeNodegroup", "eks:UpdateNodegroupConfig"],
                [arn("eks", site.region, f"nodegroup/{site.cluster}/*/*")],
                ours,
            ),
            # EKS tags the Auto Scaling groups that it makes with its own tags only.
            _allow(
                ["autoscaling:SuspendProcesses"],
                [arn("autoscaling", site.region, scaling)],
                {"aws:ResourceTag/eks:cluster-name": site.cluster},
            ),
        ]
    return found


def _allow(
    actions: Sequence[str], resources: Sequence[Any], conditions: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
    return {**statement, "Condition": {"StringEquals": dict(conditions)}} if conditions else statement
