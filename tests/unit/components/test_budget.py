"""BudgetGuard: recipients, thresholds and filters of alerts."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpufleet.components.budget import AnomalyArgs, BudgetGuard, BudgetGuardArgs, CapArgs
from gpufleet.components.functions import drain_spot, stop_scale_out
from gpufleet.components.scale_out_stop import GrowingSite, ScaleOutStopArgs
from gpufleet.components.spot_drain import DrainedSite, SpotDrainArgs
from gpufleet.errors import InputError
from tests.unit.components.recording import ACCOUNT, Recording, record


def guard(**changes: Any) -> Recording:
    args: dict[str, Any] = {
        "monthly_usd": Decimal(45000),
        "thresholds": [Decimal(50), Decimal(80), Decimal(100)],
        "cost_tags": {"gpufleet:fleet": "atlas", "gpufleet:environment": "prod"},
        "emails": ["ml@example.com"],
        "tags": {"team": "ml"},
    }
    return record(lambda: BudgetGuard("budget", BudgetGuardArgs(**args | changes)))


def test_limit_is_monthly_and_exact() -> None:
    inputs = guard(monthly_usd=Decimal("1234.50")).one("Budget").inputs
    assert (inputs["limitAmount"], inputs["limitUnit"], inputs["timeUnit"]) == ("1234.50", "USD", "MONTHLY")


def test_each_threshold_has_an_alert_and_the_forecast_one() -> None:
    alerts = guard().one("Budget").inputs["notifications"]
    assert [(a["notificationType"], a["threshold"]) for a in alerts] == [
        ("ACTUAL", 50),
        ("ACTUAL", 80),
        ("ACTUAL", 100),
        ("FORECASTED", 100),
    ]
    assert all(len(a["subscriberSnsTopicArns"]) == 1 for a in alerts)


def test_only_resources_with_every_tag_count() -> None:
    expression = guard().one("Budget").inputs["filterExpression"]
    assert expression == {
        "ands": [
            {"tags": {"key": "gpufleet:environment", "values": ["prod"]}},
            {"tags": {"key": "gpufleet:fleet", "values": ["atlas"]}},
        ]
    }
    one = guard(cost_tags={"team": "ml"}).one("Budget").inputs["filterExpression"]
    assert one == {"tags": {"key": "team", "values": ["ml"]}}
    assert "filterExpression" not in guard(cost_tags={}).one("Budget").inputs


def test_filter_comes_with_the_metric_that_aws_needs_for_it() -> None:
    assert guard().one("Budget").inputs["metrics"] == "UnblendedCost"
    assert "metrics" not in guard(cost_tags={}).one("Budget").inputs


def test_topic_is_encrypted_with_a_key_that_budgets_may_use_for_this_account() -> None:
    built = guard()
    assert built.one("Topic").inputs["kmsMasterKeyId"] == "budget-id"
    policy = json.loads(built.one("Key").inputs["policy"])
    (statement,) = [s for s in policy["Statement"] if s["Sid"] == "BudgetsEncryptAlerts"]
    assert statement["Principal"] == {"Service": "budgets.amazonaws.com"}
    assert set(statement["Action"]) == {"kms:Decrypt", "kms:GenerateDataKey*"}
    assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}


def test_only_budgets_of_this_account_may_publish() -> None:
    (statement,) = json.loads(guard().one("TopicPolicy").inputs["policy"])["Statement"]
    assert statement["Principal"] == {"Service": "budgets.amazonaws.com"}
    assert statement["Action"] == "sns:Publish"
    assert statement["Resource"].endswith("Topic/budget")
    assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}


def test_budget_is_created_after_the_topic_policy() -> None:
    built = guard()
    assert built.one("TopicPolicy").urn in built.one("Budget").dependencies


def test_each_address_gets_a_subscription() -> None:
    (subscription,) = guard().of("TopicSubscription")
    assert (subscription.inputs["protocol"], subscription.inputs["endpoint"]) == ("email", "ml@example.com")
    assert guard(emails=[]).of("TopicSubscription") == []


def test_too_many_alerts_are_refused() -> None:
    with pytest.raises(InputError, match="can have 9"):
        guard(thresholds=[Decimal(n) for n in range(10, 110, 10)])


STOP = ScaleOutStopArgs(
    sites=[
        GrowingSite(name="use1", region="us-east-1", cluster="atlas-prod-use1"),
        GrowingSite(name="usw2", region="us-west-2"),
    ],
    groups=["atlas-prod-use1-serve", "atlas-prod-usw2-burst"],
    caps={"site-usw2": ["atlas-prod-usw2-burst"]},
    parameter="/gpufleet/atlas/prod/stopped-groups",
)


def test_caps_are_budgets_of_their_own_tags_with_the_same_alerts() -> None:
    tags = {"gpufleet:fleet": "atlas", "gpufleet:environment": "prod", "gpufleet:site": "use1"}
    built = guard(caps=[CapArgs(name="site-use1", monthly_usd=Decimal(900), cost_tags=tags)])
    whole, cap = built.one("Budget", "budget"), built.one("Budget", "budget-site-use1")
    assert cap.inputs["limitAmount"] == "900"
    assert cap.inputs["notifications"] == whole.inputs["notifications"]
    assert {"tags": {"key": "gpufleet:site", "values": ["use1"]}} in cap.inputs["filterExpression"]["ands"]


def test_nothing_stops_growth_unless_asked() -> None:
    built = guard()
    assert not [each for each in built if "lambda" in each.type or "ssm" in each.type]
    assert [s["Sid"] for s in json.loads(built.one("Key").inputs["policy"])["Statement"]] == [
        "AccountGovernsThisKeyThroughIam",
        "BudgetsEncryptAlerts",
    ]


@pytest.mark.parametrize(
    ("thresholds", "expected"), [([50, 80], [50, 80, 100]), ([100], [100]), ([50, 120], [50, 100, 120])]
)
def test_stop_needs_the_alert_of_100_percent(thresholds: list[int], expected: list[int]) -> None:
    alerts = (
        guard(thresholds=[Decimal(n) for n in thresholds], stop=STOP).one("Budget").inputs["notifications"]
    )
    assert [a["threshold"] for a in alerts if a["notificationType"] == "ACTUAL"] == expected


def test_too_many_alerts_with_the_one_that_stops_are_refused() -> None:
    with pytest.raises(InputError, match="10 alerts"):
        guard(thresholds=[Decimal(n) for n in range(10, 100, 10)], stop=STOP)


def test_function_is_the_code_of_the_package_with_its_settings() -> None:
    function = guard(stop=STOP).one("Function")
    texts = function.inputs["code"]
    assert texts["stop_scale_out.py"] == Path(stop_scale_out.__file__).read_text(encoding="utf-8")
    settings = json.loads(texts["settings.json"])
    assert settings["budget"] == "budget"
    assert settings["tags"] == {"gpufleet:fleet": "atlas", "gpufleet:environment": "prod"}
    assert settings["budgets"] == {"budget": STOP.groups, "budget-site-usw2": STOP.groups[1:]}
    assert settings["sites"][1] == {"name": "usw2", "region": "us-west-2", "cluster": ""}
    assert function.inputs["handler"] == "stop_scale_out.handler"
    assert hasattr(stop_scale_out, "handler")


def test_only_the_topic_may_invoke_the_function() -> None:
    built = guard(stop=STOP)
    permission = built.one("Permission").inputs
    assert permission["principal"] == "sns.amazonaws.com"
    assert permission["sourceArn"].endswith("Topic/budget")
    assert permission["sourceAccount"] == ACCOUNT
    (subscription,) = [each for each in built.of("TopicSubscription") if each.inputs["protocol"] == "lambda"]
    assert json.loads(subscription.inputs["filterPolicy"]) == {"gpufleet": [{"exists": False}]}
    assert built.one("Permission").urn in subscription.dependencies


def role_statements() -> list[dict[str, Any]]:
    (policy,) = guard(stop=STOP).of("RolePolicy")
    found: list[dict[str, Any]] = json.loads(policy.inputs["policy"])["Statement"]
    return found


def test_role_terminates_nothing_and_reads_no_other_budget() -> None:
    actions = {action for each in role_statements() for action in each["Action"]}
    assert actions == {
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:SuspendProcesses",
        "autoscaling:UpdateAutoScalingGroup",
        "budgets:ViewBudget",
        "eks:DescribeNodegroup",
        "eks:ListNodegroups",
        "eks:UpdateNodegroupConfig",
        "kms:Decrypt",
        "kms:GenerateDataKey*",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "sns:Publish",
        "ssm:GetParameter",
        "ssm:PutParameter",
    }
    everything = [each["Action"] for each in role_statements() if each["Resource"] == ["*"]]
    assert everything == [["autoscaling:DescribeAutoScalingGroups"]]


def test_role_changes_only_groups_with_the_cost_tags() -> None:
    changing = {
        "autoscaling:UpdateAutoScalingGroup": {
            "aws:ResourceTag/gpufleet:fleet": "atlas",
            "aws:ResourceTag/gpufleet:environment": "prod",
        },
        "eks:UpdateNodegroupConfig": {
            "aws:ResourceTag/gpufleet:fleet": "atlas",
            "aws:ResourceTag/gpufleet:environment": "prod",
        },
        "autoscaling:SuspendProcesses": {"aws:ResourceTag/eks:cluster-name": "atlas-prod-use1"},
    }
    for action, tags in changing.items():
        (statement,) = [each for each in role_statements() if action in each["Action"]]
        assert statement["Condition"] == {"StringEquals": tags}


def test_stopped_groups_are_kept_in_a_parameter_whose_value_pulumi_leaves_alone() -> None:
    parameter = guard(stop=STOP).one("Parameter")
    assert (parameter.inputs["name"], parameter.inputs["insecureValue"]) == (STOP.parameter, "{}")
    assert set(parameter.ignore_changes) == {"insecureValue", "tier"}


def test_log_group_of_the_function_is_encrypted_with_a_key_that_allows_it() -> None:
    built = guard(stop=STOP)
    group = built.one("LogGroup").inputs
    assert group["name"] == "/aws/lambda/budget-stop" == f"/aws/lambda/{built.one('Function').inputs['name']}"
    statements = json.loads(built.one("Key").inputs["policy"])["Statement"]
    (logs,) = [each for each in statements if each["Sid"] == "LogsEncryptThisGroup"]
    assert group["name"] in json.dumps(logs["Condition"])


DRAIN = SpotDrainArgs(
    sites=[
        DrainedSite(name="use1", region="us-east-1", queue="use1-notices", cluster="atlas-prod-use1"),
        DrainedSite(name="usw2", region="us-west-2", queue="usw2-notices"),
    ],
    groups=["atlas-prod-use1-cheap", "atlas-prod-usw2-sweep"],
    at_percent=Decimal(115),
    caps={"site-usw2": ["atlas-prod-usw2-sweep"]},
    path="/gpufleet/atlas/prod/drained",
)


def test_stop_is_the_same_with_and_without_the_drain() -> None:
    alone, both = guard(stop=STOP), guard(stop=STOP, drain=DRAIN)
    for each in alone:
        if each.name.endswith("-stop"):
            (same,) = [other for other in both if other.urn == each.urn]
            assert same.inputs == each.inputs


def test_drain_has_a_function_an_alert_and_a_record_of_each_group() -> None:
    built = guard(stop=STOP, drain=DRAIN)
    alerts = built.one("Budget").inputs["notifications"]
    assert [a["threshold"] for a in alerts if a["notificationType"] == "ACTUAL"] == [50, 80, 100, 115]
    function = built.one("Function", "budget-drain")
    settings = json.loads(function.inputs["code"]["settings.json"])
    assert function.inputs["code"]["drain_spot.py"] == Path(drain_spot.__file__).read_text(encoding="utf-8")
    assert (function.inputs["handler"], settings["at"]) == ("drain_spot.handler", "115")
    assert settings["budgets"] == {"budget": DRAIN.groups, "budget-site-usw2": DRAIN.groups[1:]}
    assert settings["tags"]["gpufleet:budget-drain"] == "spot"
    records = {
        each.inputs["name"]: set(each.ignore_changes)
        for each in built.of("Parameter")
        if "drained" in each.inputs["name"]
    }
    assert records == {f"{DRAIN.path}/{name}": {"insecureValue"} for name in DRAIN.groups}
    topics = {each.name for each in built.of("TopicSubscription") if each.inputs["protocol"] == "lambda"}
    assert topics == {"budget-stop", "budget-drain"}


def drain_statements() -> list[dict[str, Any]]:
    policy = guard(stop=STOP, drain=DRAIN).one("RolePolicy", "budget-drain")
    found: list[dict[str, Any]] = json.loads(policy.inputs["policy"])["Statement"]
    return found


def test_role_of_the_drain_changes_only_groups_with_the_tag_of_spot_groups_and_ends_nothing() -> None:
    changing = [
        each
        for each in drain_statements()
        if any(action.partition(":")[2].startswith(("Update", "Suspend")) for action in each["Action"])
    ]
    own = "aws:ResourceTag/gpufleet:budget-drain"
    assert [each["Condition"]["StringEquals"][own] for each in changing] == ["spot"] * 3
    actions = {action for each in drain_statements() for action in each["Action"]}
    assert not [each for each in actions if "Terminate" in each or "SetDesired" in each or "Delete" in each]
    (sent,) = [each for each in drain_statements() if "sqs:SendMessage" in each["Action"]]
    assert [each.rpartition(":")[2] for each in sent["Resource"]] == ["use1-notices", "usw2-notices"]


def test_statements_of_a_key_policy_have_names_of_their_own() -> None:
    statements = json.loads(guard(stop=STOP, drain=DRAIN).one("Key").inputs["policy"])["Statement"]
    names = [each["Sid"] for each in statements]
    assert len(set(names)) == len(names) == 4


ANOMALIES = AnomalyArgs(above_usd=Decimal(500), tag=("gpufleet:environment", "prod"))


def test_anomalies_of_the_tag_go_to_the_recipients_once_a_day() -> None:
    built = guard(anomalies=ANOMALIES)
    monitor = built.one("AnomalyMonitor").inputs
    assert monitor["monitorType"] == "CUSTOM"
    assert json.loads(monitor["monitorSpecification"]) == {
        "Tags": {"Key": "gpufleet:environment", "Values": ["prod"]}
    }
    subscription = built.one("AnomalySubscription").inputs
    assert subscription["frequency"] == "DAILY"
    assert subscription["subscribers"] == [{"type": "EMAIL", "address": "ml@example.com"}]
    assert subscription["thresholdExpression"]["dimension"]["values"] == ["500"]


@pytest.mark.parametrize("kind", ["AnomalyMonitor", "AnomalySubscription"])
def test_monitor_and_subscription_have_the_tags_of_the_fleet(kind: str) -> None:
    tags = guard(anomalies=ANOMALIES).one(kind).inputs["tags"]
    assert tags == {"team": "ml", "Name": "budget-anomalies"}


def test_existing_monitor_is_subscribed_to_and_none_is_made() -> None:
    arn = "arn:aws:ce::123456789012:anomalymonitor/1234abcd-12ab-34cd-56ef-1234567890ab"
    built = guard(anomalies=replace(ANOMALIES, monitor_arn=arn))
    assert built.of("AnomalyMonitor") == []
    assert built.one("AnomalySubscription").inputs["monitorArnLists"] == [arn]


def test_anomalies_without_a_recipient_are_refused() -> None:
    with pytest.raises(InputError, match="nobody receives"):
        guard(anomalies=ANOMALIES, emails=[])
