"""A change does not loosen the budget, rules and exemptions that apply to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, get_args

from gpufleet.kinds import DRAIN_SPOT_AT, OnBreach
from gpufleet.policies.rules.change_safety._access import new_access
from gpufleet.policy.change import StackChange
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Enforcement, Example, Settings, Violation, change_rule
from gpufleet.policy.stricter_limits import STRICTNESS, caps_that_follow, stricter_spec
from gpufleet.spec.models import Budget, FleetSpec
from gpufleet.spec.quantity import Money


def _fleet(monthly: str) -> dict[str, Any]:
    return {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": "prod",
        "budget": {"monthly": monthly},
        "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
        "software": {"channel": "2026.11"},
    }


@change_rule(
    "guardrails-loosened",
    group="change-safety",
    title="A change does not loosen its own limits",
    why="Budget, rules, exemptions and who has access are in the file that the change edits. A change is "
    "judged by the stricter of its own limits and those before it, so that it cannot raise a cap and spend "
    "it; this rule names what the next change may do.",
    fix="Raise caps, lower rules and add exemptions in a separate change that their owner approves. To "
    "refuse even that, set the rule to mandatory in the base branch: the base's level counts.",
    severity="high",
    enforcement="advisory",
    guard=True,
    fleet_field="budget",
    passes=Example((), fleet=_fleet("1000 USD"), fleet_before=_fleet("1200 USD")),
    fails=Example((), fleet=_fleet("2000 USD"), fleet_before=_fleet("1000 USD")),
)
def guardrails_loosened(change: StackChange, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Compare the two fleet files; a new environment has nothing to loosen."""
    before, after = change.spec_before, context.shared.spec
    if before is None or after is None:
        return
    yield from _budget(before.budget, after.budget)
    yield from _left_behind(before, after)
    yield from _policies(before, after)
    yield from _exemptions(before, after)
    for key in before.required_tags:
        if key not in after.required_tags:
            yield _loosened("required_tags", f"{key!r} is no longer required")
    if before.expires != after.expires:
        # An earlier date may end storage early, and a later one costs more.
        yield _loosened("expires", f"{before.expires or 'never'} becomes {after.expires or 'never'}")
    for old, new in zip(after.onprem, stricter_spec(before, after).onprem, strict=True):
        if old != new:
            yield _loosened("onprem", f"{old.site} declares lower costs of its racks")
    for what in _bursts(before, after):
        yield _loosened("cloud", what)
    for field, what in new_access(before, after):
        yield _loosened(field, what)
    if before.environment != after.environment:
        yield _loosened("environment", f"{before.environment} becomes {after.environment}")


def _budget(before: Budget, after: Budget) -> Iterator[Violation]:
    for name in ("monthly", "upfront", "max_increase"):
        yield from _cap(f"budget.{name}", getattr(before, name), getattr(after, name))
    for name in ("sites", "node_groups", "teams"):
        caps: Mapping[str, Money] = getattr(before, name)
        for key, cap in caps.items():
            yield from _cap(f"budget.{name}.{key}", cap, getattr(after, name).get(key))
    if before.ends is not None and (after.ends is None or after.ends > before.ends):
        yield _loosened("budget.ends", f"{before.ends} becomes {after.ends or 'never'}")
    actions = get_args(OnBreach)
    if actions.index(after.on_breach) < actions.index(before.on_breach):
        yield _loosened("budget.on_breach", f"{before.on_breach} becomes {after.on_breach}")
    elif before.on_breach == "drain-spot" and _drains_at(after) > _drains_at(before):
        yield _loosened("budget.drain_spot_at", f"{_drains_at(before)}% becomes {_drains_at(after)}%")


def _drains_at(budget: Budget) -> Decimal:
    return Decimal(DRAIN_SPOT_AT if budget.drain_spot_at is None else budget.drain_spot_at.value)


def _left_behind(before: FleetSpec, after: FleetSpec) -> Iterator[Violation]:
    """Report caps that no longer apply to a node group, because it changes its team or its name."""
    follow = caps_that_follow(before, after)
    for name in ("node_groups", "sites"):
        known: Mapping[str, Money] = getattr(before.budget, name)
        for key, cap in getattr(follow, name).items():
            if cap != known.get(key):
                yield from _cap(f"budget.{name}.{key}", cap, getattr(after.budget, name).get(key))


def _cap(field: str, before: Money | None, after: Money | None) -> Iterator[Violation]:
    if before is not None and (after is None or Decimal(after.amount) > Decimal(before.amount)):
        yield _loosened(field, f"{before} becomes {after or 'no limit'}")


def _bursts(before: FleetSpec, after: FleetSpec) -> Iterator[str]:
    """Say which jobs of the racks may newly leave for the cloud, and what more they may cost."""
    known = {site.site: site.slurm.burst for site in before.cloud if site.slurm is not None}
    for site in after.cloud:
        new = site.slurm.burst if site.slurm is not None else None
        old = known.get(site.site)
        if new is None:
            continue
        teams = [team for team in new.teams if old is None or team not in old.teams]
        if teams:
            yield f"waiting jobs of {', '.join(teams)} may leave the racks for {site.site}"
        if old is not None and Decimal(new.monthly.amount) > Decimal(old.monthly.amount):
            yield f"slurm.burst.monthly of {site.site} becomes {new.monthly}, from {old.monthly}"


def _policies(before: FleetSpec, after: FleetSpec) -> Iterator[Violation]:
    for name in dict.fromkeys([*before.policies, *after.policies]):
        old, new = before.policies.get(name), after.policies.get(name)
        default = _defaults().get(name, "mandatory")
        level: Enforcement = (old.enforcement if old else None) or default
        now: Enforcement = (new.enforcement if new else None) or default
        if STRICTNESS[now] < STRICTNESS[level]:
            yield _loosened(f"policies.{name}", f"{level} becomes {now}")
        elif (old.settings if old else {}) != (new.settings if new else {}):
            yield _loosened(f"policies.{name}", "its settings differ, which may allow more")


def _exemptions(before: FleetSpec, after: FleetSpec) -> Iterator[Violation]:
    known = {(each.rule, each.resource): each.expires for each in before.exemptions}
    for each in after.exemptions:
        until = known.get((each.rule, each.resource))
        if until is None or each.expires > until:
            yield _loosened(
                "exemptions",
                f"{each.resource} may break {each.rule} until {each.expires}, by {each.approver}"
                + (f" (it was {until})" if until is not None else ""),
            )


@cache
def _defaults() -> dict[str, Enforcement]:
    """Return the default level of each rule."""
    from gpufleet.policy.pack import load_rules

    return {rule.name: rule.enforcement for rule in load_rules(Path(__file__).resolve().parents[3])}


def _loosened(field: str, what: str) -> Violation:
    return Violation(
        f"the change loosens {field}: {what}",
        "make it a separate change that the rules' owner approves",
        fleet_field=field.rpartition(".")[0]
        if field.startswith("budget.") and field.count(".") > 1
        else field,
    )
