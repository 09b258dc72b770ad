"""The budget: caps above zero, alerts in order, addresses that mail can reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from gpufleet.checks.rules import Fleet, Problem, check

MOST_ALERTS = 9
MOST_ADDRESSES = 10
"""AWS Budgets takes ten notifications a budget, one of which is the forecast's, and ten e-mail
addresses each (AWS Budgets API Reference, CreateBudget and Subscriber)."""

_MAIL = re.compile(r"[A-Za-z0-9._%+'-]+@([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}")


@check("budget-positive")
def budget_positive(fleet: Fleet) -> Iterator[Problem]:
    """AWS Budgets refuses a limit of 0 or less, and a cap of 0 refuses everything."""
    for field in ("monthly", "upfront"):
        cap = getattr(fleet.spec.budget, field)
        if cap is not None and cap.amount <= 0:
            yield Problem(
                ("budget", field),
                f"{field} is {cap}, and a cap is above 0",
                "write what may be spent, such as '5000 USD'",
            )


@check("budget-alerts")
def budget_alerts(fleet: Fleet) -> Iterator[Problem]:
    """Alerts are thresholds on the way up to the cap: ascending, each once, and at most as many as AWS
    Budgets takes."""
    alerts = fleet.spec.budget.alerts
    for index, (lower, upper) in enumerate(pairwise(alerts), start=1):
        if lower.value >= upper.value:
            yield Problem(
                ("budget", "alerts", index),
                f"{upper} comes after {lower}: alerts ascend, each once",
                "write them in order, such as [50%, 80%, 100%]",
            )
    if len(alerts) > MOST_ALERTS:
        yield Problem(
            ("budget", "alerts"),
            f"{len(alerts)} alerts are more than the {MOST_ALERTS} that AWS Budgets takes",
            f"keep {MOST_ALERTS} or fewer",
            value=len(alerts),
        )
    if alerts and all(alert.value > 100 for alert in alerts):
        yield Problem(
            ("budget", "alerts"),
            "every alert is above 100%: nobody is told before the budget is spent",
            "add one below, such as 80%",
            "warning",
        )


@check("budget-notify")
def budget_notify(fleet: Fleet) -> Iterator[Problem]:
    """An address that mail cannot reach means that nobody is told."""
    notify = fleet.spec.budget.notify
    for index, address in enumerate(notify):
        path = ("budget", "notify", index)
        if not _MAIL.fullmatch(address):
            yield Problem(path, f"'{address}' is not an e-mail address", "write it as name@example.com")
        elif address.lower() in (other.lower() for other in notify[:index]):
            yield Problem(path, f"{address} is there twice", "name it once", "warning")
    if len(notify) > MOST_ADDRESSES:
        yield Problem(
            ("budget", "notify"),
            f"{len(notify)} addresses are more than the {MOST_ADDRESSES} that AWS Budgets takes",
            "use a mailing list",
            value=len(notify),
        )


CHECKS = (budget_positive, budget_alerts, budget_notify)
