"""The budget: caps above zero, alerts in order, addresses that mail can reach."""

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
"""AWS Budgets takes ten notifications a budget, one of which is the forecast's, and ten e-mail
addresses each (AWS Budgets API Reference, CreateBudget and Subscriber)."""

_MAIL = re.compile(r"[A-Za-z0-9._%+'-]+@([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}")


@check("budget-positive")
def budget_positive(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS Budgets refuses a limit of 0 or less, and a cap of 0 refuses everything."""
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
                f"{'.'.join(path)} is {cap}, and a cap is above 0",
                "write what may be spent, such as '5000 USD'",
            )


@check("budget-cap-known", "cloud", "onprem", "site", "node_groups", "name", "team", "teams")
def budget_cap_known(fleet: Fleet) -> Iterator[FieldFinding]:
    """A cap of something that does not exist caps nothing: a typo would leave what was meant without one."""
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
                    f"{field} has a cap of '{name}', and there is no such {what[field]}",
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
    """Alerts are thresholds on the way up to the cap: ascending, each once, and at most as many as AWS
    Budgets takes."""
    alerts = fleet.spec.budget.alerts
    for index, (lower, upper) in enumerate(pairwise(alerts), start=1):
        if lower.value >= upper.value:
            yield FieldFinding(
                ("budget", "alerts", index),
                f"{upper} comes after {lower}: alerts ascend, each once",
                "write them in order, such as [50%, 80%, 100%]",
            )
    if len(alerts) > MOST_ALERTS:
        yield FieldFinding(
            ("budget", "alerts"),
            f"{len(alerts)} alerts are more than the {MOST_ALERTS} that AWS Budgets takes",
            f"keep {MOST_ALERTS} or fewer",
            value=len(alerts),
        )
    if alerts and all(alert.value > 100 for alert in alerts):
        yield FieldFinding(
            ("budget", "alerts"),
            "every alert is above 100%: no alert is sent before the budget is spent",
            "add one below, such as 80%",
            "warning",
        )


@check("budget-notify")
def budget_notify(fleet: Fleet) -> Iterator[FieldFinding]:
    """An alert to an address that receives no mail reaches no one."""
    notify = fleet.spec.budget.notify
    for index, address in enumerate(notify):
        path = ("budget", "notify", index)
        if not _MAIL.fullmatch(address):
            yield FieldFinding(path, f"'{address}' is not an e-mail address", "write it as name@example.com")
        elif address.lower() in (other.lower() for other in notify[:index]):
            yield FieldFinding(path, f"{address} is there twice", "name it once", "warning")
    if len(notify) > MOST_ADDRESSES:
        yield FieldFinding(
            ("budget", "notify"),
            f"{len(notify)} addresses are more than the {MOST_ADDRESSES} that AWS Budgets takes",
            "use a mailing list",
            value=len(notify),
        )


CHECKS = (budget_positive, budget_cap_known, budget_alerts, budget_notify)
