"""The budget: caps above zero, alerts in ascending order, valid e-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from gpufleet.catalog.catalog import nearest
from gpufleet.checks.rules import FieldFinding, Fleet, check, did_you_mean, listed
from gpufleet.spec.models import Budget
from gpufleet.spec.quantity import Money

MOST_ALERTS = 9
MOST_ADDRESSES = 10
"""AWS Budgets allows ten notifications per budget, of which the forecast uses one, and ten e-mail addresses
per notification (AWS Budgets API Reference, CreateBudget and Subscriber)."""

_MAIL = re.compile(r"[A-Za-z0-9._%+'-]+@([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}")


@check("budget-positive")
def budget_positive(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS Budgets rejects a limit of 0 or less, and a cap of 0 refuses every change."""
    budget = fleet.spec.budget
    caps: list[tuple[tuple[str, ...], Money | None]] = [
        (("monthly",), budget.monthly),
        (("upfront",), budget.upfront),
        (("max_increase",), budget.max_increase),
    ]
    for field, named in _named_caps(budget):
        caps += [((field, name), cap) for name, cap in named.items()]
    for path, cap in caps:
        if cap is not None and cap.amount <= 0:
            yield FieldFinding(
                ("budget", *path),
                f"{'.'.join(path)} is {cap}: a cap must be above 0",
                "write the amount that may be spent, such as '5000 USD'",
            )


@check("budget-cap-known", "cloud", "onprem", "site", "node_groups", "name", "team", "teams")
def budget_cap_known(fleet: Fleet) -> Iterator[FieldFinding]:
    """A cap on a name that does not exist has no effect; it is probably a typo."""
    spec = fleet.spec
    groups = list(fleet.groups())
    known = {
        "sites": [*(site.site for site in spec.cloud), *(site.site for site in spec.onprem)],
        "node_groups": [f"{each.site.site}/{each.group.name}" for each in groups],
        "teams": list(dict.fromkeys(each.group.team for each in groups if each.group.team)),
    }
    what = {
        "sites": "site",
        "node_groups": "node group (by `site/name`)",
        "teams": "team that a node group of the cloud belongs to",
    }
    for field, named in _named_caps(spec.budget):
        for name in named:
            if name not in known[field]:
                yield FieldFinding(
                    ("budget", field, name),
                    f"{field} has a cap for '{name}', but there is no such {what[field]}",
                    did_you_mean(
                        nearest(name, known[field]),
                        f"use one of {listed(known[field])}" if known[field] else "remove it",
                    ),
                    value=name,
                )


def _named_caps(budget: Budget) -> tuple[tuple[str, Mapping[str, Money]], ...]:
    return ("sites", budget.sites), ("node_groups", budget.node_groups), ("teams", budget.teams)


@check("budget-alerts")
def budget_alerts(fleet: Fleet) -> Iterator[FieldFinding]:
    """Alerts are percentages of the cap, in ascending order without duplicates, at most as many as AWS
    Budgets allows."""
    alerts = fleet.spec.budget.alerts
    for index, (lower, upper) in enumerate(pairwise(alerts), start=1):
        if lower.value >= upper.value:
            yield FieldFinding(
                ("budget", "alerts", index),
                f"{upper} comes after {lower}: alerts must ascend without duplicates",
                "write them in order, such as [50%, 80%, 100%]",
            )
    stops = fleet.spec.budget.on_breach == "stop-scale-out" and all(alert.value != 100 for alert in alerts)
    most = MOST_ALERTS - stops
    if len(alerts) > most:
        yield FieldFinding(
            ("budget", "alerts"),
            f"{len(alerts)} alerts are more than the {most} that AWS Budgets allows"
            + (" besides the one of 100% that stops scale-out" if stops else ""),
            f"keep {most} or fewer",
            value=len(alerts),
        )
    if alerts and all(alert.value > 100 for alert in alerts):
        yield FieldFinding(
            ("budget", "alerts"),
            "all alerts are above 100%: no alert is sent before the budget is spent",
            "add an alert below 100%, such as 80%",
            "warning",
        )


@check("budget-notify")
def budget_notify(fleet: Fleet) -> Iterator[FieldFinding]:
    """Budget alerts need valid e-mail addresses, each listed once."""
    notify = fleet.spec.budget.notify
    for index, address in enumerate(notify):
        path = ("budget", "notify", index)
        if not _MAIL.fullmatch(address):
            yield FieldFinding(path, f"'{address}' is not an e-mail address", "write it as name@example.com")
        elif address.lower() in (other.lower() for other in notify[:index]):
            yield FieldFinding(path, f"{address} is listed twice", "list it once", "warning")
    if len(notify) > MOST_ADDRESSES:
        yield FieldFinding(
            ("budget", "notify"),
            f"{len(notify)} addresses are more than the {MOST_ADDRESSES} that AWS Budgets allows",
            "use a mailing list",
            value=len(notify),
        )


@check("budget-anomalies")
def budget_anomalies(fleet: Fleet) -> Iterator[FieldFinding]:
    """Reports of anomalies need a positive amount, a cloud site with costs, and a recipient."""
    anomalies = fleet.spec.budget.anomalies
    if anomalies is None:
        return
    if anomalies.above.amount <= 0:
        yield FieldFinding(
            ("budget", "anomalies", "above"),
            f"anomalies.above is {anomalies.above}: every anomaly has an impact above 0",
            "write the impact from which it matters, such as '500 USD'",
        )
    if not fleet.spec.budget.notify:
        yield FieldFinding(
            ("budget", "anomalies"),
            "anomalies are reported to budget.notify, which is empty",
            "add an e-mail address to budget.notify, or remove budget.anomalies",
        )
    if not fleet.spec.cloud:
        yield FieldFinding(
            ("budget", "anomalies"),
            "AWS detects anomalies of cloud sites, and there is none",
            "remove budget.anomalies",
        )


CHECKS = (budget_positive, budget_cap_known, budget_alerts, budget_notify, budget_anomalies)
