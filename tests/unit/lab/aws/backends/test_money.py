from __future__ import annotations

from typing import Any

import pytest

ACCOUNT = "123456789012"
TOPIC = {"SubscriptionType": "SNS", "Address": f"arn:aws:sns:us-east-1:{ACCOUNT}:alerts"}
MAIL = {"SubscriptionType": "EMAIL", "Address": "finops@example.com"}
AT_80 = {
    "NotificationType": "ACTUAL",
    "ComparisonOperator": "GREATER_THAN",
    "Threshold": 80.0,
    "ThresholdType": "PERCENTAGE",
}
BUDGET = {
    "BudgetName": "atlas",
    "BudgetType": "COST",
    "TimeUnit": "MONTHLY",
    "BudgetLimit": {"Amount": "250000", "Unit": "USD"},
    "CostFilters": {"TagKeyValue": ["user:fleet$atlas"]},
}
NAME = {"AccountId": ACCOUNT, "BudgetName": "atlas"}


def test_budget_is_created_updated_and_deleted(aws: Any, refused: Any) -> None:
    budgets = aws("budgets")
    budgets.create_budget(
        AccountId=ACCOUNT,
        Budget=BUDGET,
        NotificationsWithSubscribers=[{"Notification": AT_80, "Subscribers": [TOPIC]}],
        ResourceTags=[{"Key": "fleet", "Value": "atlas"}],
    )
    found = budgets.describe_budget(**NAME)["Budget"]
    assert BUDGET.items() <= found.items()
    assert found["CalculatedSpend"]["ActualSpend"]["Amount"] == "0"
    (reported,) = budgets.describe_notifications_for_budget(**NAME)["Notifications"]
    assert AT_80.items() <= reported.items()
    assert budgets.describe_subscribers_for_notification(**NAME, Notification=reported)["Subscribers"] == [
        TOPIC
    ]

    smaller = {**BUDGET, "BudgetLimit": {"Amount": "100000", "Unit": "USD"}}
    budgets.update_budget(AccountId=ACCOUNT, NewBudget=smaller)
    updated = budgets.describe_budget(**NAME)["Budget"]
    assert updated["BudgetLimit"] == smaller["BudgetLimit"]
    assert updated["TimePeriod"] == found["TimePeriod"]

    forecast = {**AT_80, "NotificationType": "FORECASTED", "Threshold": 100.0}
    budgets.create_notification(**NAME, Notification=forecast, Subscribers=[MAIL])
    with refused("DuplicateRecordException"):
        budgets.create_notification(**NAME, Notification=forecast, Subscribers=[MAIL])
    budgets.create_subscriber(**NAME, Notification=forecast, Subscriber=TOPIC)
    budgets.delete_subscriber(**NAME, Notification=forecast, Subscriber=MAIL)
    answer = budgets.describe_subscribers_for_notification(**NAME, Notification=forecast)
    assert answer["Subscribers"] == [TOPIC]
    budgets.update_notification(
        **NAME, OldNotification=forecast, NewNotification={**forecast, "Threshold": 90.0}
    )
    with refused("NotFoundException"):
        budgets.delete_notification(**NAME, Notification=forecast)
    budgets.delete_notification(**NAME, Notification=AT_80)
    (left,) = budgets.describe_notifications_for_budget(**NAME)["Notifications"]
    assert (left["NotificationType"], left["Threshold"]) == ("FORECASTED", 90.0)

    arn = f"arn:aws:budgets::{ACCOUNT}:budget/atlas"
    budgets.tag_resource(ResourceARN=arn, ResourceTags=[{"Key": "late", "Value": "yes"}])
    budgets.untag_resource(ResourceARN=arn, ResourceTagKeys=["fleet"])
    assert budgets.list_tags_for_resource(ResourceARN=arn)["ResourceTags"] == [
        {"Key": "late", "Value": "yes"}
    ]
    budgets.delete_budget(**NAME)
    assert budgets.describe_budgets(AccountId=ACCOUNT)["Budgets"] == []
    for operation in (budgets.describe_budget, budgets.describe_notifications_for_budget):
        with refused("NotFoundException"):
            operation(**NAME)
    with refused("NotFoundException"):
        budgets.list_tags_for_resource(ResourceARN=arn)


@pytest.mark.parametrize(
    ("subscribers", "code"),
    [
        ([], "InvalidParameterException"),
        ([TOPIC, {**TOPIC, "Address": "b"}], "CreationLimitExceededException"),
    ],
)
def test_invalid_subscribers_are_refused(
    aws: Any, refused: Any, subscribers: list[dict[str, str]], code: str
) -> None:
    from botocore.exceptions import ParamValidationError

    wanted = [{"Notification": AT_80, "Subscribers": subscribers}]
    create = aws("budgets").create_budget
    if not subscribers:
        with pytest.raises(ParamValidationError):
            create(AccountId=ACCOUNT, Budget=BUDGET, NotificationsWithSubscribers=wanted)
    else:
        with refused(code):
            create(AccountId=ACCOUNT, Budget=BUDGET, NotificationsWithSubscribers=wanted)
    assert aws("budgets").describe_budgets(AccountId=ACCOUNT)["Budgets"] == []


def test_cost_anomalies_have_monitors_and_subscriptions(aws: Any, refused: Any) -> None:
    ce = aws("ce")
    monitor = ce.create_anomaly_monitor(
        AnomalyMonitor={
            "MonitorName": "atlas",
            "MonitorType": "CUSTOM",
            "MonitorSpecification": {"Tags": {"Key": "fleet", "Values": ["atlas"]}},
        },
        ResourceTags=[{"Key": "fleet", "Value": "atlas"}],
    )["MonitorArn"]
    (found,) = ce.get_anomaly_monitors(MonitorArnList=[monitor])["AnomalyMonitors"]
    assert found["MonitorSpecification"] == {"Tags": {"Key": "fleet", "Values": ["atlas"]}}
    assert ce.list_tags_for_resource(ResourceArn=monitor)["ResourceTags"] == [
        {"Key": "fleet", "Value": "atlas"}
    ]
    threshold = {
        "Dimensions": {
            "Key": "ANOMALY_TOTAL_IMPACT_ABSOLUTE",
            "Values": ["100"],
            "MatchOptions": ["GREATER_THAN_OR_EQUAL"],
        }
    }
    wanted = {
        "SubscriptionName": "atlas",
        "MonitorArnList": [monitor],
        "Frequency": "DAILY",
        "Subscribers": [{"Type": "EMAIL", "Address": "finops@example.com"}],
        "ThresholdExpression": threshold,
    }
    subscription = ce.create_anomaly_subscription(AnomalySubscription=wanted)["SubscriptionArn"]
    (found,) = ce.get_anomaly_subscriptions(MonitorArn=monitor)["AnomalySubscriptions"]
    assert (found["ThresholdExpression"], found["AccountId"]) == (threshold, ACCOUNT)
    ce.update_anomaly_subscription(SubscriptionArn=subscription, Frequency="WEEKLY")
    (found,) = ce.get_anomaly_subscriptions(SubscriptionArnList=[subscription])["AnomalySubscriptions"]
    assert (found["Frequency"], found["SubscriptionName"]) == ("WEEKLY", "atlas")
    with refused("ValidationException"):
        ce.update_anomaly_subscription(SubscriptionArn=subscription, Frequency="IMMEDIATE")
    with refused("ValidationException"):
        ce.create_anomaly_monitor(AnomalyMonitor={"MonitorName": "x", "MonitorType": "CUSTOM"})
    assert ce.get_anomalies(DateInterval={"StartDate": "2026-01-01"})["Anomalies"] == []
    ce.delete_anomaly_subscription(SubscriptionArn=subscription)
    with refused("UnknownSubscriptionException"):
        ce.delete_anomaly_subscription(SubscriptionArn=subscription)
    ce.delete_anomaly_monitor(MonitorArn=monitor)
    with refused("UnknownMonitorException"):
        ce.get_anomaly_monitors(MonitorArnList=[monitor])
    assert ce.get_anomaly_monitors()["AnomalyMonitors"] == []


P_INSTANCES = {"ServiceCode": "ec2", "QuotaCode": "L-417A185B"}


def test_quota_is_raised_by_a_request(aws: Any, refused: Any) -> None:
    quotas = aws("service-quotas")
    default = quotas.get_aws_default_service_quota(**P_INSTANCES)["Quota"]
    assert (default["QuotaName"], default["Value"]) == ("Running On-Demand P instances", 0.0)
    applied = quotas.get_service_quota(**P_INSTANCES)["Quota"]["Value"]
    with refused("IllegalArgumentException"):
        quotas.request_service_quota_increase(**P_INSTANCES, DesiredValue=applied)
    request = quotas.request_service_quota_increase(**P_INSTANCES, DesiredValue=applied * 2)["RequestedQuota"]
    assert request["Status"] == "APPROVED"
    assert quotas.get_service_quota(**P_INSTANCES)["Quota"]["Value"] == applied * 2
    assert quotas.get_aws_default_service_quota(**P_INSTANCES)["Quota"]["Value"] == 0.0
    history = quotas.list_requested_service_quota_change_history_by_quota(**P_INSTANCES)["RequestedQuotas"]
    assert [one["Id"] for one in history] == [request["Id"]]
    assert quotas.get_requested_service_quota_change(RequestId=request["Id"])["RequestedQuota"] == request
    other = aws("service-quotas", "us-west-2").get_service_quota(**P_INSTANCES)["Quota"]
    assert other["Value"] == applied


def test_quotas_are_listed_and_unknown_ones_are_errors(aws: Any, refused: Any) -> None:
    quotas = aws("service-quotas")
    services = {"ec2", "vpc", "eks", "fsx", "route53resolver"}
    assert {one["ServiceCode"] for one in quotas.list_services()["Services"]} == services
    for service in services:
        applied = quotas.list_service_quotas(ServiceCode=service)["Quotas"]
        default = quotas.list_aws_default_service_quotas(ServiceCode=service)["Quotas"]
        assert {one["QuotaCode"] for one in applied} == {one["QuotaCode"] for one in default}
    with refused("NoSuchResourceException"):
        quotas.list_service_quotas(ServiceCode="none")
    with refused("NoSuchResourceException"):
        quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-00000000")
