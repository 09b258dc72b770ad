"""BudgetGuard: recipients, thresholds and filters of alerts."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from gpufleet.components.budget import BudgetGuard, BudgetGuardArgs
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
