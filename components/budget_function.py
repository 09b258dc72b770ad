"""A Lambda function that acts on the alerts of a budget: its role, its log group and its subscription."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import AwsContext, Component, assume_role_policy, policy_document
from gpufleet.kinds import LOG_RETENTION_DAYS

RUNTIME = "python3.13"
"""Supported by Lambda until 30 June 2029 (AWS Lambda developer guide, "Lambda runtimes")."""

TIMEOUT_S = 300


@dataclass(frozen=True, kw_only=True)
class BudgetGroups:
    """Which node groups a function changes: `groups` are values of their tag `Name`.

    `caps` has the groups of a further budget, by its name (`CapArgs.name`). `launched` has the most nodes of
    groups whose nodes Slurm launches, which are no groups of AWS.
    """

    groups: Sequence[str]
    caps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    launched: Mapping[str, int] = field(default_factory=dict)

    def by_budget(self, name: str) -> dict[str, list[str]]:
        """Return the groups of the budget `name` and of each further one, by its name in AWS."""
        return {
            name: list(self.groups),
            **{f"{name}-{cap}": list(groups) for cap, groups in self.caps.items()},
        }


@dataclass(frozen=True, kw_only=True)
class BudgetFunctionArgs:
    """The function `label` with the code of a module that has `handler`, `SETTINGS` and `OWN_MESSAGE`.

    `statements` are its rights besides those on its topic, key and log group. It is created after `after`.
    """

    label: str
    description: str
    code: ModuleType
    settings: Mapping[str, Any]
    statements: Sequence[Mapping[str, Any]]
    after: Sequence[pulumi.Resource]


def log_group_name(label: str) -> str:
    """Return the log group that Lambda writes to."""
    return f"/aws/lambda/{label}"


def budget_function(
    component: Component,
    args: BudgetFunctionArgs,
    context: AwsContext,
    topic: aws.sns.Topic,
    key: aws.kms.Key,
) -> aws.lambda_.Function:
    """Create the function, subscribed to the topic of the alerts without the functions' own messages."""
    label = args.label
    logs = aws.cloudwatch.LogGroup(
        label,
        name=log_group_name(label),
        retention_in_days=LOG_RETENTION_DAYS,
        kms_key_id=key.arn,
        tags=component.tags(label),
        opts=component.child(),
    )
    role = aws.iam.Role(
        label,
        description=args.description,
        assume_role_policy=assume_role_policy("lambda.amazonaws.com"),
        tags=component.tags(label),
        opts=component.child(),
    )
    policy = aws.iam.RolePolicy(
        label,
        role=role.id,
        policy=policy_document(args.statements),
        opts=component.child(),
    )
    source = Path(str(args.code.__file__))
    function = aws.lambda_.Function(
        label,
        name=label,
        description=args.description,
        role=role.arn,
        runtime=RUNTIME,
        architectures=["arm64"],
        handler=f"{source.stem}.handler",
        code=pulumi.AssetArchive(
            {
                source.name: pulumi.StringAsset(source.read_text(encoding="utf-8")),
                args.code.SETTINGS: pulumi.StringAsset(json.dumps(args.settings, sort_keys=True)),
            }
        ),
        timeout=TIMEOUT_S,
        memory_size=256,
        environment=aws.lambda_.FunctionEnvironmentArgs(variables={"TOPIC_ARN": topic.arn}),
        tags=component.tags(label),
        opts=component.child(depends_on=[logs, policy, *args.after]),
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
        # Without their own messages, which would start them again.
        filter_policy=json.dumps({args.code.OWN_MESSAGE: [{"exists": False}]}),
        filter_policy_scope="MessageAttributes",
        opts=component.child(depends_on=[permission]),
    )
    return function


def arn_of(context: AwsContext, service: str, region: pulumi.Input[str], rest: str) -> pulumi.Output[str]:
    """Return the ARN of a resource of the account."""
    return pulumi.Output.format(
        "arn:{0}:{1}:{2}:{3}:{4}", context.partition, service, region, context.account_id, rest
    )


def common_statements(
    label: str, budgets: Sequence[str], context: AwsContext, topic: aws.sns.Topic, key: aws.kms.Key
) -> dict[str, dict[str, Any]]:
    """Return what each function may do, by subject: read its budgets, write to the topic and to its log."""
    return {
        "budgets": allow(
            ["budgets:ViewBudget"], [arn_of(context, "budgets", "", f"budget/{each}") for each in budgets]
        ),
        "topic": allow(["sns:Publish"], [topic.arn]),
        "key": allow(["kms:GenerateDataKey*", "kms:Decrypt"], [key.arn]),
        "logs": allow(
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            [arn_of(context, "logs", context.region, f"log-group:{log_group_name(label)}:*")],
        ),
    }


def allow(
    actions: Sequence[str], resources: Sequence[Any], conditions: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a statement that allows actions on resources with these values of condition keys."""
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
    return {**statement, "Condition": {"StringEquals": dict(conditions)}} if conditions else statement
