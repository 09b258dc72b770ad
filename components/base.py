"""Shared parts of all components: tags of children, provider context, and KMS keys with a policy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

Tags = Mapping[str, pulumi.Input[str]]
"""Tags of every taggable child; its own `Name` is added to them."""


@dataclass(frozen=True)
class AwsContext:
    """The account, partition (`aws`, `aws-cn`, ...) and region of a component's provider."""

    account_id: pulumi.Output[str]
    partition: pulumi.Output[str]
    region: pulumi.Output[str]


class Component(pulumi.ComponentResource):
    """A component whose children are parented to it and carry its tags.

    Children are named after the component (`<name>-<part>`), so a program can have several of a kind.
    """

    def __init__(self, token: str, name: str, tags: Tags, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(token, name, None, opts)
        self._component_tags = dict(tags)

    def child(self, **options: Any) -> pulumi.ResourceOptions:
        """Return resource options of a child: its parent is this component, plus `options`."""
        return pulumi.ResourceOptions(parent=self, **options)

    def tags(self, name: str, **extra: pulumi.Input[str]) -> dict[str, pulumi.Input[str]]:
        """Return the tags of the child `name`."""
        return {**self._component_tags, **extra, "Name": name}

    def aws_context(self) -> AwsContext:
        """Return the account and region of this component's provider, as the provider reports them."""
        opts = pulumi.InvokeOutputOptions(parent=self)
        return AwsContext(
            account_id=aws.get_caller_identity_output(opts=opts).account_id,
            partition=aws.get_partition_output(opts=opts).partition,
            region=aws.get_region_output(opts=opts).region,
        )


def assume_role_policy(*services: str, actions: Sequence[str] = ("sts:AssumeRole",)) -> str:
    """Return a trust policy that lets AWS services (`ec2.amazonaws.com`) assume a role."""
    return _document([{"Effect": "Allow", "Principal": {"Service": list(services)}, "Action": list(actions)}])


def policy_document(statements: Sequence[Mapping[str, Any]]) -> pulumi.Output[str]:
    """Return an IAM policy document as JSON; statements may contain outputs."""
    return pulumi.Output.json_dumps({"Version": "2012-10-17", "Statement": list(statements)})


def _document(statements: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def encryption_key(
    component: Component,
    name: str,
    description: str,
    context: AwsContext,
    *,
    services: Sequence[Mapping[str, Any]] = (),
    protect: bool = False,
) -> aws.kms.Key:
    """Create a customer-managed KMS key, rotated yearly and kept for 30 days after a request to delete it.

    The account's own IAM policies govern the key (AWS's default statement, without which the key could no
    longer be managed); `services` are the statements that let AWS services use it.
    """
    owner = {
        "Sid": "AccountGovernsThisKeyThroughIam",
        "Effect": "Allow",
        "Principal": {
            "AWS": pulumi.Output.format("arn:{0}:iam::{1}:root", context.partition, context.account_id)
        },
        "Action": "kms:*",
        "Resource": "*",
    }
    return aws.kms.Key(
        name,
        description=description,
        enable_key_rotation=True,
        deletion_window_in_days=30,
        policy=policy_document([owner, *services]),
        tags=component.tags(name),
        opts=component.child(protect=protect),
    )


def logs_may_use_key(context: AwsContext, log_group_name: pulumi.Input[str]) -> dict[str, Any]:
    """Return the key policy statement that lets CloudWatch Logs encrypt one log group."""
    return {
        "Sid": "LogsEncryptThisGroup",
        "Effect": "Allow",
        "Principal": {"Service": pulumi.Output.format("logs.{0}.amazonaws.com", context.region)},
        "Action": ["kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
        "Resource": "*",
        "Condition": {
            "ArnEquals": {
                "kms:EncryptionContext:aws:logs:arn": pulumi.Output.format(
                    "arn:{0}:logs:{1}:{2}:log-group:{3}",
                    context.partition,
                    context.region,
                    context.account_id,
                    log_group_name,
                )
            }
        },
    }


def may_create_spot_role(context: AwsContext) -> dict[str, Any]:
    """Return the policy statement for who may be the first to request a spot instance in an account.

    EC2 makes its service-linked role then, with the rights of the caller (EC2 User Guide, "Service-linked
    role for Spot Instance requests").
    """
    return {
        "Effect": "Allow",
        "Action": ["iam:CreateServiceLinkedRole"],
        "Resource": [
            pulumi.Output.format(
                "arn:{0}:iam::{1}:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot",
                context.partition,
                context.account_id,
            )
        ],
        "Condition": {"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}},
    }


def available_after(value: pulumi.Output[str], resources: Sequence[pulumi.Resource]) -> pulumi.Output[str]:
    """Return the value, known only once the resources exist, so that its users wait for them."""
    return pulumi.Output.all(value, *(item.urn for item in resources)).apply(lambda parts: str(parts[0]))


def field_of(value: Any, name: str) -> Any:
    """Return a field of an output type, which arrives as an object or as a dictionary in camel case."""
    if isinstance(value, Mapping):
        head, *rest = name.split("_")
        return value[name] if name in value else value[head + "".join(part.capitalize() for part in rest)]
    return getattr(value, name)
