"""The budget: caps above zero, alerts in ascending order, valid e-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise

from gpufleet.catalog.catalog import nearest
from gpufleet.checks.rules import FieldFinding, Fleet, check, did_you_mean, listed
from gpufleet.kinds import DRAIN_SPOT_AT
from gpufleet.spec.models import Budget, Spot
from gpufleet.spec.parsing import plain
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
    acting = [at for at in _acting_alerts(fleet.spec.budget) if all(alert.value != at for alert in alerts)]
    most = MOST_ALERTS - len(acting)
    if len(alerts) > most:
        yield FieldFinding(
            ("budget", "alerts"),
            f"{len(alerts)} alerts are more than the {most} that AWS Budgets allows" + _besides(acting),
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


def _acting_alerts(budget: Budget) -> list[Decimal | int]:
    """Return the percentages whose alerts a function acts on."""
    if budget.on_breach == "notify":
        return []
    if budget.on_breach == "stop-scale-out":
        return [100]
    return list(dict.fromkeys([100, budget.drain_spot_at.value if budget.drain_spot_at else DRAIN_SPOT_AT]))


def _besides(acting: Sequence[Decimal | int]) -> str:
    does = [
        f"the one of {plain(Decimal(at))}% that {'stops scale-out' if at == 100 else 'drains spot nodes'}"
        for at in acting
    ]
    return f" besides {' and '.join(does)}" if does else ""


@check("budget-drain")
def budget_drain(fleet: Fleet) -> Iterator[FieldFinding]:
    """Spot drains after scale-out has stopped, never before: nodes that drain would start again elsewhere."""
    budget, at = fleet.spec.budget, fleet.spec.budget.drain_spot_at
    if at is None:
        return
    if at.value < 100:
        yield FieldFinding(
            ("budget", "drain_spot_at"),
            f"{at} is below 100%, where scale-out stops: spot nodes drain after that",
            "write '100%' or more, such as '110%'",
        )
    if budget.on_breach != "drain-spot":
        yield FieldFinding(
            ("budget", "drain_spot_at"),
            f"drain_spot_at has no effect with on_breach: {budget.on_breach}",
            "set `on_breach: drain-spot`, or remove it",
            "warning",
        )


@check("budget-drain-handler", "cloud", "interruptions", "node_groups")
def budget_drain_handler(fleet: Fleet) -> Iterator[FieldFinding]:
    """The handler of AWS's notices drains the nodes of a site: without it, jobs would end without a
    checkpoint. Nodes that the Slurm of racks launches are drained by its controllers."""
    if fleet.spec.budget.on_breach != "drain-spot":
        return
    for path, site in fleet.cloud():
        spot = [group.name for group in site.node_groups if isinstance(group.capacity.option, Spot)]
        if spot and site.interruptions is None and site.slurm is None:
            yield FieldFinding(
                (*path, "interruptions"),
                f"on_breach: drain-spot drains {listed(spot)} of {site.site} by the handler of interruptions,"
                f" and {site.site} has none",
                "add `interruptions: {}` to the site",
                value=site.site,
            )


@check("budget-drain-of-nothing", "cloud", "node_groups", "capacity", "team", "teams")
def budget_drain_of_nothing(fleet: Fleet) -> Iterator[FieldFinding]:
    """A budget drains only spot nodes; one that covers none drains nothing."""
    budget = fleet.spec.budget
    if budget.on_breach != "drain-spot":
        return
    spot = [each for each in fleet.groups() if isinstance(each.option, Spot)]
    if not spot:
        yield FieldFinding(
            ("budget", "on_breach"),
            "on_breach is drain-spot, and no node group of a cloud site buys spot capacity: nothing drains",
            "write 'stop-scale-out'",
            "warning",
        )
        return
    drained = {("sites", each.site.site) for each in spot} | {("teams", each.group.team) for each in spot}
    caps = [("sites", site.site) for site in fleet.spec.cloud if site.site in budget.sites]
    caps += [("teams", team) for team in budget.teams]
    for field, name in caps:
        if (field, name) not in drained:
            yield FieldFinding(
                ("budget", field, name),
                f"{field[:-1]} {name} has no node group that buys spot capacity: when this cap is spent, its"
                " groups grow no more, and no node drains",
                "leave it, if this cap is meant to stop growth only",
                "warning",
                value=name,
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


CHECKS = (
    budget_positive,
    budget_cap_known,
    budget_alerts,
    budget_drain,
    budget_drain_handler,
    budget_drain_of_nothing,
    budget_notify,
    budget_anomalies,
)
