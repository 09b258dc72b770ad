"""The limits by which a change is judged: those of the fleet file before it, where they are stricter.

A pull request edits the file with its own budget, rule levels and exemptions. What it loosens counts only for
the changes after it: nobody raises a cap and spends it, disables a rule and breaks it, or exempts himself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.plan import build_plan
from gpufleet.plan.assumptions import RULE as ASSUMING
from gpufleet.plan.assumptions import SETTING, amount_of
from gpufleet.policy.context import PolicyContext
from gpufleet.policy.rule import Enforcement
from gpufleet.policy.settings import ConfiguredRule
from gpufleet.spec.models import Budget, FleetSpec
from gpufleet.spec.onprem import OnPremSite, Ownership, RunningCosts, SitePower
from gpufleet.spec.policy import Exemption, RuleSettings
from gpufleet.spec.quantity import Money

_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1) // _MICROSECOND
STRICTNESS: Mapping[Enforcement, int] = {"disabled": 0, "advisory": 1, "remediate": 2, "mandatory": 2}


class StricterLimits(Struct, frozen=True):
    """Rules, exemptions and context that judge a change. `differ` is True if the change loosens any."""

    configured: tuple[ConfiguredRule, ...]
    exemptions: tuple[Exemption, ...]
    shared: PolicyContext
    differ: bool


def limits_for_change(
    configured: Sequence[ConfiguredRule],
    configured_before: Sequence[ConfiguredRule],
    shared: PolicyContext,
    before: FleetSpec | None,
) -> StricterLimits:
    """Return the limits for a change of `before`. A new environment has no limits to loosen.

    `configured_before` are the same rules as the fleet file before the change configures them.
    """
    after = shared.spec
    if before is None or after is None:
        return StricterLimits(tuple(configured), after.exemptions if after is not None else (), shared, False)
    stricter = {each.rule.name: each for each in configured_before}
    rules = tuple(_stricter(each, stricter.get(each.rule.name, each)) for each in configured)
    exemptions = tuple(each for each in after.exemptions if _is_covered(each, before.exemptions))
    spec = stricter_spec(before, after)
    differ = spec != after or rules != tuple(configured) or exemptions != after.exemptions
    if spec != after:
        shared = replace(shared, spec=spec, plan=build_plan(spec, shared.catalog), _costs={})
    return StricterLimits(rules, exemptions, shared, differ)


def stricter_spec(before: FleetSpec, after: FleetSpec) -> FleetSpec:
    """Return the fleet file after a change with caps, required tags, assumed amounts and rack costs as before
    it where those are stricter."""
    sites = {site.site: site for site in before.onprem}
    changed: dict[str, Any] = {
        "budget": _budget(before, after),
        "required_tags": tuple(dict.fromkeys([*after.required_tags, *before.required_tags])),
        "onprem": tuple(_rack_costs(sites.get(site.site), site) for site in after.onprem),
        "policies": _assumed(before, after),
    }
    stricter = {name: each for name, each in changed.items() if each != getattr(after, name)}
    return after.model_copy(update=stricter)


def _stricter(each: ConfiguredRule, before: ConfiguredRule) -> ConfiguredRule:
    lower = STRICTNESS[before.enforcement] > STRICTNESS[each.enforcement]
    # A new resource may need an amount. Lowered ones are held with the fleet file.
    settings = each.settings if each.rule.name == ASSUMING else before.settings
    return replace(each, enforcement=before.enforcement if lower else each.enforcement, settings=settings)


def _is_covered(exemption: Exemption, known: Sequence[Exemption]) -> bool:
    same = (exemption.rule, exemption.resource)
    return any(same == (each.rule, each.resource) and exemption.expires <= each.expires for each in known)


def _budget(spec_before: FleetSpec, spec: FleetSpec) -> Budget:
    before, after = caps_that_follow(spec_before, spec), spec.budget
    groups, sites = set(teams_of(spec)), _sites(spec)
    teams = {team for team in teams_of(spec).values() if team}
    ends = min((each for each in (before.ends, after.ends) if each is not None), default=None)
    return after.model_copy(
        update={
            **{
                name: _lower(getattr(before, name), getattr(after, name))
                for name in ("monthly", "upfront", "max_increase")
            },
            "sites": _caps(before.sites, after.sites, sites),
            "node_groups": _caps(before.node_groups, after.node_groups, groups),
            "teams": _caps(before.teams, after.teams, teams),
            "ends": ends,
        }
    )


def caps_that_follow(before: FleetSpec, after: FleetSpec) -> Budget:
    """Return the caps before a change, with those that it would leave behind by a name.

    The cap of a team also limits each node group that leaves it. The cap of a node group or site that is gone
    limits each new one: in the same site, or in the fleet.
    """
    budget, old, new = before.budget, teams_of(before), teams_of(after)
    groups, sites = dict(budget.node_groups), dict(budget.sites)
    for name, team in old.items():
        cap = budget.teams.get(team or "")
        if cap is not None and new.get(name, team) != team:
            groups[name] = _lower(groups.get(name), cap) or cap
    for name, cap in budget.node_groups.items():
        for added in new.keys() - old.keys() if name not in new else ():
            if added.partition("/")[0] == name.partition("/")[0]:
                groups[added] = _higher(groups.get(added), cap)
    for name, cap in budget.sites.items():
        for added in _sites(after) - _sites(before) if name not in _sites(after) else ():
            sites[added] = _higher(sites.get(added), cap)
    return budget.model_copy(update={"node_groups": groups, "sites": sites})


def teams_of(spec: FleetSpec) -> dict[str, str | None]:
    """Return `site/group` -> team of all node groups."""
    return {f"{site.site}/{group.name}": group.team for site in spec.cloud for group in site.node_groups}


def _sites(spec: FleetSpec) -> set[str]:
    return {site.site for site in spec.cloud} | {site.site for site in spec.onprem}


def _higher(one: Money | None, other: Money) -> Money:
    return other if one is None or one.amount < other.amount else one


def _lower(before: Money | None, after: Money | None) -> Money | None:
    caps = [each for each in (after, before) if each is not None]
    return min(caps, key=lambda each: each.amount, default=None)


def _caps(before: Mapping[str, Money], after: Mapping[str, Money], exist: set[str]) -> dict[str, Money]:
    """The lower cap of each target; one that the change removes stays while its target exists."""
    kept = {name: cap for name, cap in before.items() if name in after or name in exist}
    lower = {name: _lower(kept.get(name), after.get(name)) for name in dict.fromkeys([*after, *kept])}
    return {name: cap for name, cap in lower.items() if cap is not None}


def _assumed(before: FleetSpec, after: FleetSpec) -> dict[str, RuleSettings]:
    """The policies after the change with the higher of two amounts for the same resource.

    An amount that the change removes stays, and a key that names a resource more exactly gets no less than
    the one that covered it before.
    """
    old, new = (_amounts(spec) for spec in (before, after))
    raised = {
        key: max((text, *_covering(old, key)), key=lambda each: _usd(key, each))
        for key, text in {**old, **new}.items()
    }
    if raised == new:
        return after.policies
    policy = after.policies.get(ASSUMING) or RuleSettings()
    settings = {**policy.settings, SETTING: raised}
    return {**after.policies, ASSUMING: policy.model_copy(update={"settings": settings})}


def _covering(amounts: Mapping[str, str], key: str) -> list[str]:
    """Return the amounts of a resource's own key, and of the names and patterns that cover it.

    Only its own key covers the nodes of a group.
    """
    names = (key,) if key.endswith("/compute") else (key, key.partition("/")[0])
    return [text for known, text in amounts.items() if any(fnmatchcase(name, known) for name in names)]


def _amounts(spec: FleetSpec) -> Mapping[str, str]:
    policy = spec.policies.get(ASSUMING)
    written = policy.settings.get(SETTING) if policy is not None else None
    return {str(key): str(text) for key, text in written.items()} if isinstance(written, Mapping) else {}


def _usd(key: str, text: str) -> Decimal:
    try:
        return amount_of(key, text)
    except ValueError:
        return Decimal(0)


def _rack_costs(before: OnPremSite | None, after: OnPremSite) -> OnPremSite:
    if before is None:
        return after
    power = before.power if _power(before.power) > _power(after.power) else after.power
    owned = before.ownership if _owned(before.ownership) > _owned(after.ownership) else after.ownership
    running = _running(before.running_costs, after.running_costs)
    if (power, owned, running) == (after.power, after.ownership, after.running_costs):
        return after
    return after.model_copy(update={"power": power, "ownership": owned, "running_costs": running})


def _running(before: RunningCosts | None, after: RunningCosts | None) -> RunningCosts | None:
    """The higher amount of each kind."""
    if before is None or after is None:
        return after or before
    higher = {name: _higher(getattr(after, name), money) for name, money in before if money is not None}
    return after.model_copy(update=higher)


def _power(power: SitePower | None) -> Decimal:
    """USD for a kWh of the nodes, with that of the hall."""
    return Decimal(0) if power is None else Decimal(str(power.pue)) * power.price.amount


def _owned(owned: Ownership | None) -> Decimal:
    """The share of a node's purchase price that counts for a day."""
    if owned is None:
        return Decimal(0)
    return owned.acquisition.amount * _DAY / (owned.lifetime.delta // _MICROSECOND)
