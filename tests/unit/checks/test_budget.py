"""The budget, and the cost."""

from __future__ import annotations

import datetime as dt

import pytest

from gpufleet.checks.budget import MOST_ALERTS
from gpufleet.errors import SpecError
from gpufleet.spec.paths import parse_path
from tests.unit.checks.fleets import NOW, Judge


@pytest.mark.parametrize("field", ["monthly", "upfront"])
def test_budget_of_zero_is_refused(judge: Judge, field: str) -> None:
    finding = judge({f"budget.{field}": "0 USD"}).only("budget-positive")
    assert finding.field == f"budget.{field}"
    assert finding.value == "0 USD"


@pytest.mark.parametrize(
    ("field", "name"),
    [("sites", "use2"), ("node_groups", "use1/nothing"), ("node_groups", "pretrain"), ("teams", "nobody")],
)
def test_cap_of_an_unknown_site_or_team_is_refused(judge: Judge, field: str, name: str) -> None:
    finding = judge({f"budget.{field}": {name: "1000 USD"}}).only("budget-cap-known")
    assert parse_path(finding.field) == ("budget", field, name)
    assert name in finding.message


def test_cap_of_an_existing_site_passes_unless_it_is_zero(judge: Judge) -> None:
    assert judge({"budget.sites": {"use1": "900000 USD"}}).rules == judge({}).rules
    assert judge({"budget.sites": {"use1": "0 USD"}}).only("budget-positive").field == "budget.sites.use1"


def test_misspelt_cap_suggests_the_nearest_name(judge: Judge) -> None:
    assert "'use1'" in judge({"budget.sites": {"us1e": "1000 USD"}}).only("budget-cap-known").remedy


@pytest.mark.parametrize("amount", ["-5 USD", "5000 EUR"])
def test_negative_budget_or_other_currency_is_refused_on_load(judge: Judge, amount: str) -> None:
    with pytest.raises(SpecError) as raised:
        judge({"budget.monthly": amount})
    (finding,) = raised.value.findings
    assert finding.field == "budget.monthly"
    assert finding.value == amount


@pytest.mark.parametrize("alerts", [["80%", "50%"], ["50%", "50%"]])
def test_alerts_out_of_order_are_refused(judge: Judge, alerts: list[str]) -> None:
    finding = judge({"budget.alerts": alerts}).only("budget-alerts")
    assert finding.field == "budget.alerts[1]"


def test_alert_above_100_percent_is_a_warning(judge: Judge) -> None:
    judge({"budget.alerts": ["110%", "120%"]}).only("budget-alerts", "warning")


def test_too_many_alerts_for_aws_are_refused(judge: Judge) -> None:
    alerts = [f"{10 * number}%" for number in range(1, MOST_ALERTS + 2)]
    assert judge({"budget.alerts": alerts[:-1]}).rules == set()
    judge({"budget.alerts": alerts}).only("budget-alerts")


@pytest.mark.parametrize("address", ["finops", "finops@@example.com", "a@b", "a@-b.com"])
def test_invalid_mail_address_is_refused(judge: Judge, address: str) -> None:
    finding = judge({"budget.notify": ["ok@example.com", address]}).only("budget-notify")
    assert finding.field == "budget.notify[1]"
    assert finding.value == address


def test_duplicate_address_is_a_warning(judge: Judge) -> None:
    judge({"budget.notify": ["a@example.com", "A@example.com"]}).only("budget-notify", "warning")


def test_too_many_addresses_for_aws_are_refused(judge: Judge) -> None:
    judge({"budget.notify": [f"p{number}@example.com" for number in range(11)]}).only("budget-notify")


def test_cost_above_the_budget_is_a_warning_with_both_amounts(judge: Judge) -> None:
    finding = judge({"budget.monthly": "1000 USD"}).only("budget-exceeded", "warning")
    assert finding.field == "budget.monthly"
    assert "expected to cost" in finding.message
    assert "1,000 USD" in finding.message


def test_cost_above_the_budget_only_at_maximum_size_is_reported_as_such(judge: Judge) -> None:
    finding = judge({"budget.monthly": "60000 USD"}).only("budget-exceeded", "warning")
    assert "at its maximum size" in finding.message


def test_cost_of_an_invalid_fleet_is_not_judged(judge: Judge) -> None:
    said = judge({"budget.monthly": "1 USD", "cloud.0.node_groups.0.instance_types": ["p9.48xlarge"]})
    assert "budget-exceeded" not in said.rules
    assert "instance-type-known" in said.rules


def test_old_prices_are_a_warning_with_their_age(judge: Judge) -> None:
    assert judge().of("price-age") == []
    (young,) = judge(now=NOW + dt.timedelta(days=150)).of("price-age")
    (old,) = judge(now=NOW + dt.timedelta(days=730)).of("price-age")
    assert young.severity == old.severity == "warning"
    assert int(old.message.split()[0]) > int(young.message.split()[0])
    assert " prices of this plan are older than " in old.message
    assert "gpufleet catalog refresh" in old.remedy
