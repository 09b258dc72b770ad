"""EventBridge rules for AWS's notices about nodes, the queue that keeps them, and who may read it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import AwsContext, Component, Tags, assume_role_policy, policy_document

SPOT = "spot"
REBALANCE = "rebalance"
CAPACITY = "capacity"
MAINTENANCE = "maintenance"

PATTERNS: Mapping[str, Mapping[str, Any]] = {
    SPOT: {"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]},
    REBALANCE: {"source": ["aws.ec2"], "detail-type": ["EC2 Instance Rebalance Recommendation"]},
    CAPACITY: {
        "source": ["aws.ec2"],
        # AWS's pages have both names of the warning before the end of a block.
        "detail-type": [
            "Capacity Block Reservation Expiration Warning",
            "Capacity Block Expiration Warning",
            "EC2 Capacity Reservation Instance Interruption Warning",
        ],
    },
    MAINTENANCE: {
        "source": ["aws.health"],
        "detail-type": ["AWS Health Event"],
        "detail": {"service": ["EC2"], "eventTypeCategory": ["scheduledChange"]},
    },
}
"""Patterns of the events, by notice (EC2 User Guide: "Spot Instance interruption notices", "EC2 instance
rebalance recommendations", "Monitor Capacity Blocks using EventBridge"; AWS Health User Guide, "AWS Health
events Amazon EventBridge schema")."""

VISIBILITY_S = 120
"""After this time a message that the handler took and did not delete is given out again."""

RETENTION_S = 14 * 24 * 3600
"""The longest that SQS keeps a message (SQS API Reference, CreateQueue)."""

MOST_RECEIVES = 20


@dataclass(frozen=True, kw_only=True)
class NoticeQueueArgs:
    """Inputs of `NoticeQueue`: the name of the queue in AWS, and the notices that it collects.

    With `cluster_name` the nodes are those of an EKS cluster, and the handler's pod gets its rights from
    `PodRole`, with `statements`. Without it there is a role for a handler on an EC2 instance, as on a Slurm
    controller.
    """

    queue: str
    notices: Sequence[str] = tuple(PATTERNS)
    cluster_name: pulumi.Input[str] | None = None
    tags: Tags


class NoticeQueue(Component):
    """A queue with AWS's notices about instances of the account in one region.

    EventBridge cannot tell a fleet's instances from others: the handler does, by their tags.
    """

    queue_url: pulumi.Output[str]
    queue_arn: pulumi.Output[str]
    statements: Sequence[Mapping[str, Any]]
    """What a handler may do: read this queue, and replace instances in groups of the site."""

    instance_profile_arn: pulumi.Output[str] | None

    def __init__(self, name: str, args: NoticeQueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpufleet:interruption:NoticeQueue", name, args.tags, opts)
        context = self.aws_context()
        queue, dead = self._queues(name, args.queue, context)
        rules = [self._rule(name, each, queue) for each in args.notices]
        aws.sqs.QueuePolicy(
            name,
            queue_url=queue.url,
            policy=policy_document(_queue_statements(queue, rules, context)),
            opts=self.child(),
        )
        aws.sqs.QueuePolicy(
            f"{name}-dead",
            queue_url=dead.url,
            policy=policy_document([_only_tls(dead)]),
            opts=self.child(),
        )
        self.queue_url = queue.url
        self.queue_arn = queue.arn
        self.statements = _handler_statements(queue.arn, args, context)
        self.instance_profile_arn = self._profile(name) if args.cluster_name is None else None
        self.register_outputs(
            {
                "queueUrl": self.queue_url,
                "queueArn": self.queue_arn,
                "instanceProfileArn": self.instance_profile_arn,
            }
        )

    def _queues(self, name: str, queue: str, context: AwsContext) -> tuple[aws.sqs.Queue, aws.sqs.Queue]:
        dead_name = f"{queue}-dead"
        source = pulumi.Output.format(
            "arn:{0}:sqs:{1}:{2}:{3}", context.partition, context.region, context.account_id, queue
        )
        dead = aws.sqs.Queue(
            f"{name}-dead",
            name=dead_name,
            sqs_managed_sse_enabled=True,
            message_retention_seconds=RETENTION_S,
            redrive_allow_policy=pulumi.Output.json_dumps(
                {"redrivePermission": "byQueue", "sourceQueueArns": [source]}
            ),
            tags=self.tags(dead_name),
            opts=self.child(),
        )
        return (
            aws.sqs.Queue(
                name,
                name=queue,
                sqs_managed_sse_enabled=True,
                visibility_timeout_seconds=VISIBILITY_S,
                message_retention_seconds=RETENTION_S,
                receive_wait_time_seconds=20,
                redrive_policy=pulumi.Output.json_dumps(
                    {"deadLetterTargetArn": dead.arn, "maxReceiveCount": MOST_RECEIVES}
                ),
                tags=self.tags(queue),
                opts=self.child(),
            ),
            dead,
        )

    def _rule(self, name: str, notice: str, queue: aws.sqs.Queue) -> aws.cloudwatch.EventRule:
        label = f"{name}-{notice}"
        rule = aws.cloudwatch.EventRule(
            label,
            description=f"Sends notices of AWS to the queue of {name}: {notice}",
            event_pattern=json.dumps(PATTERNS[notice]),
            tags=self.tags(label),
            opts=self.child(),
        )
        aws.cloudwatch.EventTarget(label, rule=rule.name, target_id="queue", arn=queue.arn, opts=self.child())
        return rule

    def _profile(self, name: str) -> pulumi.Output[str]:
        role = aws.iam.Role(
            name,
            description=f"The handler of {name}: reads its queue, replaces its nodes",
            assume_role_policy=assume_role_policy("ec2.amazonaws.com"),
            tags=self.tags(name),
            opts=self.child(),
        )
        policy = aws.iam.RolePolicy(
            name, role=role.id, policy=policy_document(self.statements), opts=self.child()
        )
        profile = aws.iam.InstanceProfile(
            name, role=role.name, tags=self.tags(name), opts=self.child(depends_on=[policy])
        )
        arn: pulumi.Output[str] = profile.arn
        return arn


def _handler_statements(
    queue_arn: pulumi.Output[str], args: NoticeQueueArgs, context: AwsContext
) -> list[dict[str, Any]]:
    """Return what the handler needs: its queue, and the end of drained instances in groups of the site."""
    group = pulumi.Output.format(
        "arn:{0}:autoscaling:{1}:{2}:autoScalingGroup:*:autoScalingGroupName/*",
        context.partition,
        context.region,
        context.account_id,
    )
    if args.cluster_name is None:
        ours = {key: value for key, value in args.tags.items() if key.startswith("gpufleet:")}
    else:
        # EKS tags the Auto Scaling groups that it makes with its own tags only.
        ours = {"eks:cluster-name": args.cluster_name}
    return [
        {
            "Effect": "Allow",
            "Action": [
                "sqs:ReceiveMessage",
                "sqs:DeleteMessage",
                "sqs:ChangeMessageVisibility",
                "sqs:GetQueueAttributes",
            ],
            "Resource": [queue_arn],
        },
        # EC2 has no permission to list single instances.
        {"Effect": "Allow", "Action": ["ec2:DescribeInstances"], "Resource": ["*"]},
        {
            "Effect": "Allow",
            "Action": ["autoscaling:TerminateInstanceInAutoScalingGroup"],
            "Resource": [group],
            "Condition": {"StringEquals": {f"aws:ResourceTag/{key}": value for key, value in ours.items()}},
        },
    ]


def _queue_statements(
    queue: aws.sqs.Queue, rules: Sequence[aws.cloudwatch.EventRule], context: AwsContext
) -> list[dict[str, Any]]:
    return [
        {
            "Sid": "RulesSend",
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue.arn,
            "Condition": {
                "ArnEquals": {"aws:SourceArn": [rule.arn for rule in rules]},
                "StringEquals": {"aws:SourceAccount": context.account_id},
            },
        },
        _only_tls(queue),
    ]


def _only_tls(queue: aws.sqs.Queue) -> dict[str, Any]:
    return {
        "Sid": "OnlyTls",
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "sqs:*",
        "Resource": queue.arn,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
