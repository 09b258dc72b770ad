"""BudgetGuard: an AWS budget over tagged resources, with alerts before the limit is reached."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import (
    AwsContext,
    Component,
    Tags,
    encryption_key,
    logs_may_use_key,
    policy_document,
)
from gpufleet.components.budget_function import log_group_name
from gpufleet.components.scale_out_stop import ScaleOutStopArgs, scale_out_stop
from gpufleet.components.scale_out_stop import function_name as stop_name
from gpufleet.components.spot_drain import SpotDrainArgs, spot_drain
from gpufleet.components.spot_drain import function_name as drain_name
from gpufleet.errors import InputError

MAX_NOTIFICATIONS = 10
"""Maximum number of notifications of one budget (CreateBudget, NotificationsWithSubscribers)."""


@dataclass(frozen=True, kw_only=True)
class CapArgs:
    """A further budget, for a part of the resources: its name after the first one's, its limit in USD a
    month, and the cost tags of that part."""

    name: str
    monthly_usd: Decimal
    cost_tags: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class AnomalyArgs:
    """Reports of anomalies with an impact of at least `above_usd`, once a day.

    Without `monitor_arn` a monitor of the cost tag `tag` (key, value) is made, which AWS allows in the
    management account of an organization only. AWS allows one tag key for each monitor.
    """

    above_usd: Decimal
    tag: tuple[str, str]
    monitor_arn: str | None = None


@dataclass(frozen=True, kw_only=True)
class BudgetGuardArgs:
    """Inputs of `BudgetGuard`: the monthly limit in USD, thresholds in percent of it, and the recipients.

    Only resources with all of `cost_tags` count. AWS counts by a tag from the day it is activated as a cost
    allocation tag (Billing console, or `aws ce update-cost-allocation-tags-status`). The recipients in
    `emails` must confirm their subscription once. `caps` are further budgets with the same alerts. `stop`
    stops the growth of node groups when a budget is spent, `drain` drains spot nodes when it is spent beyond
    a share, `anomalies` reports unusual cost to `emails`.
    """

    monthly_usd: Decimal
    thresholds: Sequence[Decimal]
    cost_tags: Mapping[str, str]
    emails: Sequence[str] = ()
    caps: Sequence[CapArgs] = ()
    stop: ScaleOutStopArgs | None = None
    drain: SpotDrainArgs | None = None
    anomalies: AnomalyArgs | None = None
    tags: Tags


class BudgetGuard(Component):
    """A monthly budget with an alert at each threshold, and one when a month's forecast is above 100%.

    Alerts go to an encrypted topic that only AWS Budgets, for this account, may publish to. AWS updates a
    budget a few times a day: alerts come hours after the spending.
    """

    topic_arn: pulumi.Output[str]
    budget_name: pulumi.Output[str]

    def __init__(self, name: str, args: BudgetGuardArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        thresholds = _thresholds(args)
        if len(thresholds) + 1 > MAX_NOTIFICATIONS:
            raise InputError(
                f"budget {name}: {len(thresholds)} alerts; a budget can have {MAX_NOTIFICATIONS - 1}",
                remedy="name fewer thresholds",
            )
        super().__init__("gpufleet:budget:BudgetGuard", name, args.tags, opts)
        context = self.aws_context()
        users = [_budgets_may_use_key(context)]
        if args.stop is not None:
            users.append(logs_may_use_key(context, log_group_name(stop_name(name))))
        if args.drain is not None:
            users.append(
                {**logs_may_use_key(context, log_group_name(drain_name(name))), "Sid": "LogsEncryptDrains"}
            )
        key = encryption_key(self, name, f"Alerts of the budget {name}", context, services=users)
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
        alerts = _notifications(thresholds, topic)
        # Budgets sends a test message when a notification is created.
        after = [policy]
        if args.stop is not None:
            scale_out_stop(self, name, args.stop, args.cost_tags, context, topic, key)
        if args.drain is not None:
            spot_drain(self, name, args.drain, args.cost_tags, context, topic, key)
        budget = self._budget(name, args.monthly_usd, args.cost_tags, alerts, after)
        for cap in args.caps:
            self._budget(f"{name}-{cap.name}", cap.monthly_usd, cap.cost_tags, alerts, after)
        if args.anomalies is not None:
            self._anomalies(name, args.anomalies, args.emails)
        self.topic_arn = topic.arn
        self.budget_name = budget.name
        self.register_outputs({"topicArn": self.topic_arn, "budgetName": self.budget_name})

    def _budget(
        self,
        name: str,
        monthly_usd: Decimal,
        cost_tags: Mapping[str, str],
        notifications: Sequence[aws.budgets.BudgetNotificationArgs],
        after: Sequence[pulumi.Resource],
    ) -> aws.budgets.Budget:
        # AWS takes a filter expression without a metric, and cannot compute the cost then
        # (github.com/hashicorp/terraform-provider-aws/issues/46866).
        carried = _carries_all(cost_tags)
        return aws.budgets.Budget(
            name,
            name=name,
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=str(monthly_usd),
            limit_unit="USD",
            filter_expression=carried,
            metrics=None if carried is None else "UnblendedCost",
            notifications=list(notifications),
            tags=self.tags(name),
            opts=self.child(depends_on=list(after)),
        )

    def _anomalies(self, name: str, args: AnomalyArgs, emails: Sequence[str]) -> None:
        if not emails:
            raise InputError(
                f"budget {name}: nobody receives reports of anomalies",
                remedy="name an e-mail address, or leave anomalies out",
            )
        label = f"{name}-anomalies"
        arn: pulumi.Input[str] | None = args.monitor_arn
        if arn is None:
            key, value = args.tag
            monitor = aws.costexplorer.AnomalyMonitor(
                label,
                name=label,
                monitor_type="CUSTOM",
                monitor_specification=json.dumps({"Tags": {"Key": key, "Values": [value]}}),
                tags=self.tags(label),
                opts=self.child(),
            )
            arn = monitor.arn
        aws.costexplorer.AnomalySubscription(
            label,
            name=label,
            frequency="DAILY",
            monitor_arn_lists=[arn],
            subscribers=[
                aws.costexplorer.AnomalySubscriptionSubscriberArgs(type="EMAIL", address=address)
                for address in emails
            ],
            threshold_expression=aws.costexplorer.AnomalySubscriptionThresholdExpressionArgs(
                dimension=aws.costexplorer.AnomalySubscriptionThresholdExpressionDimensionArgs(
                    key="ANOMALY_TOTAL_IMPACT_ABSOLUTE",
                    match_options=["GREATER_THAN_OR_EQUAL"],
                    values=[str(args.above_usd)],
                )
            ),
            tags=self.tags(label),
            opts=self.child(),
        )


def _thresholds(args: BudgetGuardArgs) -> list[Decimal]:
    """Return the thresholds of alerts. What stops growth needs the one of 100%, what drains its own."""
    acting = {Decimal(100)} if args.stop is not None else set()
    if args.drain is not None:
        acting.add(args.drain.at_percent)
    return sorted({*args.thresholds, *acting})


def _notifications(
    thresholds: Sequence[Decimal], topic: aws.sns.Topic
) -> list[aws.budgets.BudgetNotificationArgs]:
    alerts = [("ACTUAL", threshold) for threshold in thresholds]
    return [
        aws.budgets.BudgetNotificationArgs(
            comparison_operator="GREATER_THAN",
            notification_type=kind,
            threshold=float(threshold),
            threshold_type="PERCENTAGE",
            subscriber_sns_topic_arns=[topic.arn],
        )
        for kind, threshold in [*alerts, ("FORECASTED", Decimal(100))]
    ]


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
