"""VPC flow logs into an encrypted CloudWatch log group."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import (
    AwsContext,
    Component,
    assume_role_policy,
    encryption_key,
    logs_may_use_key,
    policy_document,
)


def flow_logs(
    component: Component,
    name: str,
    vpc_id: pulumi.Output[str],
    context: AwsContext,
    retention_days: int,
) -> None:
    """Record accepted and rejected traffic of the VPC, encrypted and kept for `retention_days`."""
    label = f"{name}-flow-logs"
    # The name is fixed because the key's policy allows this one group.
    group_name = f"/gpufleet/{name}/flow-logs"
    key = encryption_key(
        component,
        label,
        f"Flow logs of {name}",
        context,
        services=[logs_may_use_key(context, group_name)],
    )
    group = aws.cloudwatch.LogGroup(
        label,
        name=group_name,
        retention_in_days=retention_days,
        kms_key_id=key.arn,
        tags=component.tags(label),
        opts=component.child(),
    )
    role = aws.iam.Role(
        label,
        description=f"Writes the flow logs of {name}",
        assume_role_policy=assume_role_policy("vpc-flow-logs.amazonaws.com"),
        tags=component.tags(label),
        opts=component.child(),
    )
    # Built from the name, which is known before the group exists: rules check the policy in a preview.
    group_arn = pulumi.Output.format(
        "arn:{0}:logs:{1}:{2}:log-group:{3}",
        context.partition,
        context.region,
        context.account_id,
        group_name,
    )
    policy = aws.iam.RolePolicy(
        label,
        role=role.id,
        policy=policy_document(
            [
                {
                    "Effect": "Allow",
                    "Action": ["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"],
                    "Resource": pulumi.Output.format("{0}:*", group_arn),
                }
            ]
        ),
        opts=component.child(),
    )
    aws.ec2.FlowLog(
        label,
        vpc_id=vpc_id,
        traffic_type="ALL",
        log_destination_type="cloud-watch-logs",
        log_destination=group.arn,
        iam_role_arn=role.arn,
        max_aggregation_interval=600,
        tags=component.tags(label),
        opts=component.child(depends_on=[policy]),
    )
