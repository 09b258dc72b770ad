"""AWS Budgets: updates, notifications with their subscribers, tags.

moto has budgets and notifications; it accepts subscribers and does not return them.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from moto.core.base_backend import BackendDict, BaseBackend
from moto.core.utils import unix_time
from moto.utilities.utils import PARTITION_NAMES

from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation

MAX_NOTIFICATIONS = 10
MAX_SNS_SUBSCRIBERS = 1
MAX_SUBSCRIBERS = 11
"""Limits of the Budgets API reference (CreateNotification: one SNS and ten email subscribers)."""


class BudgetTagBackend(BaseBackend):  # type: ignore[misc]
    """Tags of budgets of one account, by ARN."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.tags: dict[str, dict[str, str]] = {}


budget_tag_backends = BackendDict(
    BudgetTagBackend, "budgets", use_boto3_regions=False, additional_regions=PARTITION_NAMES
)


def _tags(call: Call) -> dict[str, dict[str, str]]:
    backend: BudgetTagBackend = budget_tag_backends[call.account][call.partition]
    return backend.tags


def _budgets(call: Call) -> dict[str, Any]:
    from moto.budgets.models import budgets_backends

    backend = budgets_backends[call.account][call.partition]
    found: dict[str, Any] = backend.budgets[call.params["AccountId"]]
    return found


def _find(call: Call) -> Any:
    name = call.params["BudgetName"]
    budget = _budgets(call).get(name)
    if budget is None:
        raise AwsError("NotFoundException", f"Unable to find budget: {name} - the budget doesn't exist.")
    return budget


@operation("budgets", "CreateBudget")
def create_budget(call: Call) -> Passthrough:
    """Create a budget with notifications and tags."""
    budget, notifications = call.params["Budget"], call.params.get("NotificationsWithSubscribers") or []
    _check_filters(budget)
    if len(notifications) > MAX_NOTIFICATIONS:
        message = f"A budget takes at most {MAX_NOTIFICATIONS} notifications."
        raise AwsError("CreationLimitExceededException", message)
    for one in notifications:
        _check_subscribers(one["Subscribers"])
    answer = call.original()
    if call.params.get("ResourceTags"):
        _tags(call)[_arn(call, budget["BudgetName"])] = _as_dict(call.params["ResourceTags"])
    return answer


@operation("budgets", "UpdateBudget")
def update_budget(call: Call) -> Params:
    """Replace a budget's settings; notifications stay."""
    wanted = dict(call.params["NewBudget"])
    call.params["BudgetName"] = wanted["BudgetName"]
    found = _find(call)
    if not wanted.get("BudgetLimit") and not wanted.get("PlannedBudgetLimits"):
        raise AwsError("InvalidParameterException", "Unable to update budget - please provide a limit.")
    _check_filters(wanted)
    wanted = _stamped(wanted)
    period = {**found.budget["TimePeriod"], **(wanted.get("TimePeriod") or {})}
    found.budget = {**wanted, "TimePeriod": period, "LastUpdatedTime": unix_time()}
    return {}


@operation("budgets", "DeleteBudget")
def delete_budget(call: Call) -> Passthrough:
    """Delete a budget with its notifications and tags."""
    answer = call.original()
    _tags(call).pop(_arn(call, call.params["BudgetName"]), None)
    return answer


@operation("budgets", "CreateNotification")
def create_notification(call: Call) -> Params:
    """Add a notification; reject a duplicate."""
    budget, wanted = _find(call), call.params["Notification"]
    _check_subscribers(call.params["Subscribers"])
    if any(_same(one.details, wanted) for one in budget.notifications):
        raise AwsError("DuplicateRecordException", "The notification already exists.")
    if len(budget.notifications) >= MAX_NOTIFICATIONS:
        message = f"A budget takes at most {MAX_NOTIFICATIONS} notifications."
        raise AwsError("CreationLimitExceededException", message)
    budget.add_notification(dict(wanted), list(call.params["Subscribers"]))
    return {}


@operation("budgets", "UpdateNotification")
def update_notification(call: Call) -> Params:
    """Replace a notification; its subscribers stay."""
    found = _notification(call, call.params["OldNotification"])
    found.details = dict(call.params["NewNotification"])
    return {}


@operation("budgets", "DeleteNotification")
def delete_notification(call: Call) -> Params:
    """Remove a notification."""
    found = _notification(call, call.params["Notification"])
    _find(call).notifications.remove(found)
    return {}


@operation("budgets", "DescribeNotificationsForBudget")
def describe_notifications_for_budget(call: Call) -> Params:
    """The notifications of a budget."""
    return {"Notifications": [_with_details(one.details) for one in _find(call).notifications]}


@operation("budgets", "DescribeBudgetNotificationsForAccount")
def describe_budget_notifications_for_account(call: Call) -> Params:
    """The notifications of every budget."""
    every = [
        {"BudgetName": name, "Notifications": [_with_details(one.details) for one in budget.notifications]}
        for name, budget in _budgets(call).items()
    ]
    return {"BudgetNotificationsForAccount": every}


@operation("budgets", "DescribeSubscribersForNotification")
def describe_subscribers_for_notification(call: Call) -> Params:
    """Return the subscribers of a notification."""
    return {"Subscribers": _notification(call, call.params["Notification"]).subscribers}


@operation("budgets", "CreateSubscriber")
def create_subscriber(call: Call) -> Params:
    """Add a subscriber."""
    found, wanted = _notification(call, call.params["Notification"]), call.params["Subscriber"]
    if wanted in found.subscribers:
        raise AwsError("DuplicateRecordException", "The subscriber already exists.")
    _check_subscribers([*found.subscribers, wanted])
    found.subscribers.append(wanted)
    return {}


@operation("budgets", "UpdateSubscriber")
def update_subscriber(call: Call) -> Params:
    """Replace a subscriber."""
    found = _notification(call, call.params["Notification"])
    old, new = call.params["OldSubscriber"], call.params["NewSubscriber"]
    if old not in found.subscribers:
        raise AwsError("NotFoundException", "The subscriber doesn't exist.")
    found.subscribers[found.subscribers.index(old)] = new
    return {}


@operation("budgets", "DeleteSubscriber")
def delete_subscriber(call: Call) -> Params:
    """Remove a subscriber, and its notification if it has no other, as in AWS."""
    found, wanted = _notification(call, call.params["Notification"]), call.params["Subscriber"]
    if wanted not in found.subscribers:
        raise AwsError("NotFoundException", "The subscriber doesn't exist.")
    found.subscribers.remove(wanted)
    if not found.subscribers:
        _find(call).notifications.remove(found)
    return {}


@operation("budgets", "DescribeBudgetActionsForBudget")
def describe_budget_actions_for_budget(call: Call) -> Params:
    """The sandbox has no budget actions."""
    _find(call)
    return {"Actions": []}


@operation("budgets", "TagResource")
def tag_resource(call: Call) -> Params:
    """Add or replace tags of a budget."""
    arn = _known(call)
    _tags(call).setdefault(arn, {}).update(_as_dict(call.params["ResourceTags"]))
    return {}


@operation("budgets", "UntagResource")
def untag_resource(call: Call) -> Params:
    """Remove tags of a budget."""
    tags = _tags(call).get(_known(call), {})
    for key in call.params["ResourceTagKeys"]:
        tags.pop(key, None)
    return {}


@operation("budgets", "ListTagsForResource")
def list_tags_for_resource(call: Call) -> Params:
    """The tags of a budget."""
    tags = _tags(call).get(_known(call), {})
    return {"ResourceTags": [{"Key": key, "Value": value} for key, value in sorted(tags.items())]}


def _known(call: Call) -> str:
    arn: str = call.params["ResourceARN"]
    call.params["AccountId"] = arn.split(":")[4]
    call.params["BudgetName"] = arn.partition(":budget/")[2]
    _find(call)
    return arn


def _arn(call: Call, name: str) -> str:
    return f"arn:{call.partition}:budgets::{call.params['AccountId']}:budget/{name}"


def _notification(call: Call, wanted: Params) -> Any:
    for one in _find(call).notifications:
        if _same(one.details, wanted):
            return one
    raise AwsError("NotFoundException", "The notification doesn't exist.")


def _with_details(details: Params) -> Params:
    return {"ThresholdType": "PERCENTAGE", "NotificationState": "OK", **details}


def _same(one: Params, other: Params) -> bool:
    keys = ("NotificationType", "ComparisonOperator", "ThresholdType")
    first, second = _with_details(one), _with_details(other)
    same = all(first[key] == second[key] for key in keys)
    return same and float(first["Threshold"]) == float(second["Threshold"])


def _check_subscribers(subscribers: list[Params]) -> None:
    if not subscribers:
        raise AwsError("InvalidParameterException", "A notification needs at least one subscriber.")
    topics = sum(1 for one in subscribers if one["SubscriptionType"] == "SNS")
    if topics > MAX_SNS_SUBSCRIBERS or len(subscribers) > MAX_SUBSCRIBERS:
        message = "A notification takes one SNS topic and ten email addresses at most."
        raise AwsError("CreationLimitExceededException", message)


def _check_filters(budget: Params) -> None:
    if budget.get("CostFilters") and budget.get("FilterExpression"):
        message = "CostFilters and FilterExpression cannot both be given."
        raise AwsError("InvalidParameterException", message)


def _stamped(value: Any) -> Any:
    """`value` with dates as the numbers that moto keeps."""
    if isinstance(value, dict):
        return {key: _stamped(one) for key, one in value.items()}
    return unix_time(value) if isinstance(value, dt.datetime) else value


def _as_dict(tags: list[Params]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags}
