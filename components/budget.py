"""BudgetGuard: an AWS budget over tagged resources, with alerts before the limit is reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import AwsContext, Component, Tags, encryption_key, policy_document
from gpufleet.errors import InputError

MAX_NOTIFICATIONS = 10
"""Maximum number of notifications of one budget (CreateBudget, NotificationsWithSubscribers)."""


@dataclass(frozen=True, kw_only=True)
class BudgetGuardArgs:
    """Inputs of `BudgetGuard`: the monthly limit in USD, thresholds in percent of it, and the recipients.

    Only resources with all of `cost_tags` count. AWS counts by a tag from the day it is activated as a cost
    allocation tag (Billing console, or `aws ce update-cost-allocation-tags-status`). The recipients in
    `emails` must confirm their subscription once.
    """

    monthly_usd: Decimal
    thresholds: Sequence[Decimal]
    cost_tags: Mapping[str, str]
    emails: Sequence[str] = ()
    tags: Tags


class BudgetGuard(Component):
    """A monthly budget with an alert at each threshold, and one when a month's forecast is above 100%.

    Alerts go to an encrypted topic that only AWS Budgets, for this account, may publish to. AWS updates a
    budget a few times a day: alerts cannot stop a run that already costs too much.
    """

    topic_arn: pulumi.Output[str]
    budget_name: pulumi.Output[str]

    def __init__(self, name: str, args: BudgetGuardArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        if len(args.thresholds) + 1 > MAX_NOTIFICATIONS:
            raise InputError(
                f"budget {name}: {len(args.thresholds)} alerts; a budget can have {MAX_NOTIFICATIONS - 1}",
                remedy="name fewer thresholds",
            )
        super().__init__("gpufleet:budget:BudgetGuard", name, args.tags, opts)
        context = self.aws_context()
        key = encryption_key(
            self, name, f"Alerts of the budget {name}", context, services=[_budgets_may_use_key(context)]
        )
        topic = aws.sns.Topic(name, kms_master_key_id=key.id, tags=self.tags(name), opts=self.child())
        policy = aws.sns.TopicPolicy(
            name,
            arn=topic.arn,
            policy=policy_document([_budgets_may_publish(context, topic)]),
            opts=self.child(),
        )
        for number, address in enumerate(args.emails):
            aws.sns.TopicSubscription(
                f"{name}-email-{number}",
                topic=topic.arn,
                protocol="email",
                endpoint=address,
                opts=self.child(),
            )
        alerts = [("ACTUAL", threshold) for threshold in args.thresholds]
        budget = aws.budgets.Budget(
            name,
            name=name,
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=str(args.monthly_usd),
            limit_unit="USD",
            filter_expression=_carries_all(args.cost_tags),
            notifications=[
                aws.budgets.BudgetNotificationArgs(
                    comparison_operator="GREATER_THAN",
                    notification_type=kind,
                    threshold=float(threshold),
                    threshold_type="PERCENTAGE",
                    subscriber_sns_topic_arns=[topic.arn],
                )
                for kind, threshold in [*alerts, ("FORECASTED", Decimal(100))]
            ],
            tags=self.tags(name),
            # Budgets sends a test message when a notification is created.
            opts=self.child(depends_on=[policy]),
        )
        self.topic_arn = topic.arn
        self.budget_name = budget.name
        self.register_outputs({"topicArn": self.topic_arn, "budgetName": self.budget_name})


def _carries_all(tags: Mapping[str, str]) -> aws.budgets.BudgetFilterExpressionArgs | None:
    """Return a filter for resources with all of the tags; the older cost filters have no `and`."""
    if not tags:
        return None
    if len(tags) == 1:
        ((key, value),) = tags.items()
        return aws.budgets.BudgetFilterExpressionArgs(
            tags=aws.budgets.BudgetFilterExpressionTagsArgs(key=key, values=[value])
        )
    return aws.budgets.BudgetFilterExpressionArgs(
        ands=[
            aws.budgets.BudgetFilterExpressionAndArgs(
                tags=aws.budgets.BudgetFilterExpressionAndTagsArgs(key=key, values=[value])
            )
            for key, value in sorted(tags.items())
        ]
    )


def _from_this_account(context: AwsContext) -> dict[str, Any]:
    return {"StringEquals": {"aws:SourceAccount": context.account_id}}


def _budgets_may_use_key(context: AwsContext) -> dict[str, Any]:
    return {
        "Sid": "BudgetsEncryptAlerts",
        "Effect": "Allow",
        "Principal": {"Service": "budgets.amazonaws.com"},
        "Action": ["kms:GenerateDataKey*", "kms:Decrypt"],
        "Resource": "*",
        "Condition": _from_this_account(context),
    }


def _budgets_may_publish(context: AwsContext, topic: aws.sns.Topic) -> dict[str, Any]:
    return {
        "Sid": "BudgetsPublishAlerts",
        "Effect": "Allow",
        "Principal": {"Service": "budgets.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": topic.arn,
        "Condition": _from_this_account(context),
    }
