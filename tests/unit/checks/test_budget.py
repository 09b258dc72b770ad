"""The budget, and the cost."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpufleet.checks.budget import MOST_ALERTS
from gpufleet.checks.costs import budget_exceeded, price_age
from gpufleet.errors import SpecError
from gpufleet.pricing import CostLine, FleetCost
from gpufleet.spec.paths import parse_path
from tests.unit.checks.fleets import GONE, NOW, Judge
from tests.unit.checks.test_cloud_slurm import launched


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


def test_cap_of_an_unlike_name_lists_those_that_exist(judge: Judge) -> None:
    caps = {"budget.sites": {"zzz": "1000 USD"}}
    assert judge(caps).only("budget-cap-known").remedy == "use one of use1, dc1"
    no_team = {"budget.teams": {"zzz": "1000 USD"}, "cloud.0.node_groups.0.team": GONE}
    assert judge(no_team).only("budget-cap-known").remedy == "remove it"


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
    assert judge({"budget.alerts": ["100%", "120%"]}).rules == set()
    assert judge({"budget.alerts": []}).rules == set()


def test_too_many_alerts_for_aws_are_refused(judge: Judge) -> None:
    alerts = [f"{10 * number}%" for number in range(1, MOST_ALERTS + 2)]
    assert judge({"budget.alerts": alerts[:-1]}).rules == set()
    finding = judge({"budget.alerts": alerts}).only("budget-alerts")
    assert finding.message == "10 alerts are more than the 9 that AWS Budgets allows"


def test_alert_that_stops_scale_out_counts_too(judge: Judge) -> None:
    alerts = [f"{10 * number}%" for number in range(1, MOST_ALERTS + 1)]
    stopping = {"budget.on_breach": "stop-scale-out"}
    finding = judge({"budget.alerts": alerts, **stopping}).only("budget-alerts")
    assert "besides the one of 100%" in finding.message
    assert judge({"budget.alerts": [*alerts[:-1], "100%"], **stopping}).rules == set()


def test_alerts_of_both_actions_count_too(judge: Judge) -> None:
    alerts = [f"{10 * number}%" for number in range(1, MOST_ALERTS + 1)]
    finding = judge({"budget.alerts": alerts, **DRAINING}).only("budget-alerts")
    assert "besides the one of 100% that stops scale-out and the one of 110% that drains" in finding.message
    assert judge({"budget.alerts": alerts[:-2], **DRAINING}).rules == set()
    at_once = {**DRAINING, "budget.drain_spot_at": "100%"}
    assert judge({"budget.alerts": alerts[:-1], **at_once}).rules == set()


DRAINING = {"budget.on_breach": "drain-spot", "cloud.0.interruptions": {}}


def test_drain_of_spot_passes_with_a_handler(judge: Judge) -> None:
    assert judge(DRAINING).rules == set()
    assert judge({**DRAINING, "budget.drain_spot_at": "125%"}).rules == set()


def test_drain_below_the_stop_is_refused(judge: Judge) -> None:
    finding = judge({**DRAINING, "budget.drain_spot_at": "95%"}).only("budget-drain")
    assert (finding.field, finding.value) == ("budget.drain_spot_at", "95%")


def test_share_of_a_drain_without_the_drain_is_a_warning(judge: Judge) -> None:
    given = {"budget.on_breach": "stop-scale-out", "budget.drain_spot_at": "120%"}
    assert "on_breach: stop-scale-out" in judge(given).only("budget-drain", "warning").message


def test_drain_without_the_handler_of_interruptions_is_refused(judge: Judge) -> None:
    finding = judge({"budget.on_breach": "drain-spot"}).only("budget-drain-handler")
    assert finding.field == "cloud[0].interruptions"
    assert "sweep" in finding.message and "interruptions: {}" in finding.remedy


def test_nodes_that_slurm_launches_are_drained_by_its_controllers(judge: Judge) -> None:
    spot = {"cloud.1.node_groups.0.capacity": {"spot": {"max": 4}}}
    assert judge({**launched(**spot), **DRAINING}).rules == set()


def test_drain_of_a_fleet_without_spot_is_a_warning(judge: Judge) -> None:
    no_spot = {"cloud.0.node_groups.3.capacity": {"on_demand": {"min": 0, "max": 1}}}
    finding = judge({"budget.on_breach": "drain-spot", **no_spot}).only("budget-drain-of-nothing", "warning")
    assert finding.field == "budget.on_breach"


def test_cap_of_a_team_without_spot_is_a_warning(judge: Judge) -> None:
    caps = {"budget.teams": {"research": "900000 USD"}, "budget.sites": {"use1": "900000 USD"}}
    finding = judge({**DRAINING, **caps}).only("budget-drain-of-nothing", "warning")
    assert finding.field == "budget.teams.research"
    assert "no node drains" in finding.message
    ours = {**DRAINING, **caps, "cloud.0.node_groups.3.team": "research"}
    assert "budget-drain-of-nothing" not in judge(ours).rules


def test_cap_of_a_site_without_spot_is_a_warning(judge: Judge) -> None:
    assert judge({**launched(), **DRAINING}).rules == set()
    cap = {"budget.sites": {"usw2": "900000 USD"}}
    finding = judge({**launched(), **DRAINING, **cap}).only("budget-drain-of-nothing", "warning")
    assert (finding.field, finding.value) == ("budget.sites.usw2", "usw2")


ANOMALIES = {"budget.anomalies": {"above": "500 USD"}, "budget.notify": ["a@example.com"]}


def test_anomalies_need_an_impact_above_zero(judge: Judge) -> None:
    assert judge(ANOMALIES).rules == judge({}).rules
    finding = judge({**ANOMALIES, "budget.anomalies": {"above": "0 USD"}}).only("budget-anomalies")
    assert finding.field == "budget.anomalies.above"


def test_anomalies_without_a_recipient_are_refused(judge: Judge) -> None:
    finding = judge({**ANOMALIES, "budget.notify": []}).only("budget-anomalies")
    assert "budget.notify" in finding.remedy


def test_racks_have_no_anomalies(judge: Judge) -> None:
    finding = judge({**ANOMALIES, "cloud": []}).only("budget-anomalies")
    assert finding.message == "AWS detects anomalies of cloud sites, and there is none"


def test_monitor_must_be_the_arn_of_one(judge: Judge) -> None:
    with pytest.raises(SpecError) as raised:
        judge({"budget.anomalies": {"above": "5 USD", "monitor": "arn:aws:iam::111122223333:role/x"}})
    (finding,) = raised.value.findings
    assert finding.field == "budget.anomalies.monitor"
    assert "aws ce get-anomaly-monitors" in finding.message + finding.remedy


@pytest.mark.parametrize("address", ["finops", "finops@@example.com", "a@b", "a@-b.com"])
def test_invalid_mail_address_is_refused(judge: Judge, address: str) -> None:
    finding = judge({"budget.notify": ["ok@example.com", address]}).only("budget-notify")
    assert finding.field == "budget.notify[1]"
    assert finding.value == address


def test_duplicate_address_is_a_warning(judge: Judge) -> None:
    judge({"budget.notify": ["a@example.com", "A@example.com"]}).only("budget-notify", "warning")


def test_too_many_addresses_for_aws_are_refused(judge: Judge) -> None:
    addresses = [f"p{number}@example.com" for number in range(11)]
    judge({"budget.notify": addresses}).only("budget-notify")
    assert judge({"budget.notify": addresses[:10]}).rules == set()


def test_cost_above_the_budget_is_a_warning_with_both_amounts(judge: Judge) -> None:
    finding = judge({"budget.monthly": "1000 USD"}).only("budget-exceeded", "warning")
    assert finding.field == "budget.monthly"
    assert "expected to cost" in finding.message
    assert "1,000 USD" in finding.message


def test_cost_above_the_budget_only_at_maximum_size_is_reported_as_such(judge: Judge) -> None:
    finding = judge({"budget.monthly": "60000 USD"}).only("budget-exceeded", "warning")
    assert "at its maximum size" in finding.message


def messages(expected: int, maximum: int, upfront: int, *, unknown: bool = False) -> list[str]:
    """Warnings on these costs, with a budget of 100 USD a month and a cap of 100 USD upfront."""
    limit = SimpleNamespace(amount=Decimal(100))
    total = SimpleNamespace(expected=Decimal(expected), maximum=Decimal(maximum))
    fleet = SimpleNamespace(
        cost=SimpleNamespace(total=total, upfront=Decimal(upfront), unknown=(1,) if unknown else ()),
        spec=SimpleNamespace(budget=SimpleNamespace(monthly=limit, upfront=limit)),
    )
    return [finding.message for finding in budget_exceeded.run(cast(Any, fleet))]


def test_cost_of_exactly_the_budget_is_within_it() -> None:
    assert messages(100, 100, 100) == []
    assert len(messages(101, 101, 101)) == 2
    assert ["at least" in messages(101, 101, 0, unknown=each)[0] for each in (True, False)] == [True, False]
    (maximum,) = messages(100, 101, 100)
    assert "at its maximum size" in maximum


def test_payments_at_once_need_no_cap(judge: Judge) -> None:
    assert judge({"budget.upfront": GONE}).rules == set()


def test_unknown_cost_of_racks_makes_the_alerts_of_aws_late(judge: Judge) -> None:
    finding = judge({"onprem.0.power": GONE}).only("budget-cloud-part", "warning")
    assert "AWS alerts at 900,000 USD, which is too late" in finding.message
    assert judge({"onprem.0.power": GONE, "cloud": []}).rules == set()


def test_cost_of_an_invalid_fleet_is_not_judged(judge: Judge) -> None:
    reported = judge({"budget.monthly": "1 USD", "cloud.0.node_groups.0.instance_types": ["p9.48xlarge"]})
    assert "budget-exceeded" not in reported.rules
    assert "instance-type-known" in reported.rules


def test_old_prices_are_a_warning_with_their_age(judge: Judge) -> None:
    assert judge().of("price-age") == []
    (young,) = judge(now=NOW + dt.timedelta(days=150)).of("price-age")
    (old,) = judge(now=NOW + dt.timedelta(days=730)).of("price-age")
    assert young.severity == old.severity == "warning"
    assert int(old.message.split()[0]) > int(young.message.split()[0])
    assert " prices of this plan are older than " in old.message
    assert "gpufleet catalog refresh" in old.remedy


def test_price_without_a_date_has_no_age() -> None:
    amounts = (Decimal(1),) * 3
    lines = [
        CostLine("", "", name, name, "compute", *amounts, date=date)
        for name, date in (("undated", None), ("old", "2026-01-01"))
    ]

    def reported(*lines: CostLine) -> list[str]:
        fleet = SimpleNamespace(cost=FleetCost(lines), now=NOW)
        return [finding.message for finding in price_age.run(cast(Any, fleet))]

    assert reported(lines[0]) == []
    (message,) = reported(*lines)
    assert message.startswith("1 price of this plan is older than 180 days; the oldest, of old, is from 2026")
