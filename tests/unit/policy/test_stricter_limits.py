"""Limits by which a change is judged: never looser than those before it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.catalog import load_catalog
from gpufleet.plan import build_plan
from gpufleet.policies.rules.budget._caps import example_fleet
from gpufleet.policies.rules.budget.budget_by_team import budget_by_team
from gpufleet.policies.rules.budget.budget_unknown_cost import budget_unknown_cost
from gpufleet.policies.rules.change_safety.guardrails_loosened import guardrails_loosened
from gpufleet.policies.rules.change_safety.storage_survives import storage_survives
from gpufleet.policy.context import PolicyContext
from gpufleet.policy.exemptions import is_in_force
from gpufleet.policy.settings import PackConfig, configure
from gpufleet.policy.stricter_limits import StricterLimits, limits_for_change
from gpufleet.pricing import price_plan
from gpufleet.spec.models import FleetSpec
from tests.unit.policies.change_safety.test_guardrails_loosened import EXEMPTION, fleet, level
from tests.unit.pricing.racks import PRICED_RACKS

CATALOG = load_catalog()
RULES = (guardrails_loosened, budget_by_team, budget_unknown_cost, storage_survives)
LEVELS = ("disabled", "advisory", "mandatory")
STRICT = dict(zip(LEVELS, range(3), strict=True))


def spec(budget: Any = None, **more: Any) -> FleetSpec:
    return FleetSpec.model_validate(fleet(budget, **more))


def stricter(
    before: FleetSpec | None, after: FleetSpec, given: Mapping[str, PackConfig] | None = None
) -> StricterLimits:
    shared = PolicyContext(
        project="gpufleet",
        stack="prod",
        catalog=CATALOG,
        now=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
        spec=after,
        plan=build_plan(after, CATALOG),
    )
    return limits_for_change(
        configure(RULES, after, None, given), configure(RULES, before, None, given), shared, before
    )


def enforcement(limits: StricterLimits, name: str) -> str:
    (found,) = [each.enforcement for each in limits.configured if each.rule.name == name]
    return found


@pytest.mark.parametrize("name", ["guardrails-loosened", "budget-by-team"])
@pytest.mark.parametrize("before", LEVELS)
@pytest.mark.parametrize("after", LEVELS)
def test_rule_is_enforced_at_the_stricter_level(name: str, before: str, after: str) -> None:
    found = stricter(spec(**level(name, before)), spec(**level(name, after)))
    assert enforcement(found, name) == max(before, after, key=lambda each: STRICT[each])
    assert found.differ == (STRICT[after] < STRICT[before])
    assert enforcement(stricter(None, spec(**level(name, after))), name) == after, "a new environment sets it"


def test_rule_keeps_the_settings_before_the_change() -> None:
    before, after = (
        level("budget-by-team", None, size="maximum"),
        level("budget-by-team", None, size="expected"),
    )
    (rule,) = [
        each for each in stricter(spec(**before), spec(**after)).configured if each.rule is budget_by_team
    ]
    assert rule.settings.model_dump() == {"size": "maximum"}


def test_configuration_of_the_run_counts_on_both_sides() -> None:
    own = spec()
    found = stricter(own, own, {"budget-by-team": PackConfig("advisory", {"size": "maximum"})})
    assert not found.differ
    (rule,) = [each for each in found.configured if each.rule is budget_by_team]
    assert (rule.enforcement, rule.settings.model_dump()) == ("advisory", {"size": "maximum"})


def test_exemption_counts_from_the_change_after_it() -> None:
    own = spec(exemptions=[EXEMPTION])
    assert stricter(spec(), own).exemptions == ()
    assert stricter(own, own).exemptions == own.exemptions
    assert stricter(None, own).exemptions == own.exemptions
    longer = spec(exemptions=[{**EXEMPTION, "expires": "2027-01-01"}])
    assert stricter(own, longer).exemptions == ()
    assert stricter(longer, own).exemptions == own.exemptions
    other = spec(exemptions=[{**EXEMPTION, "resource": "models"}])
    assert stricter(own, other).exemptions == ()


CAPS = st.fixed_dictionaries(
    {"monthly": st.integers(1, 9)},
    optional={"upfront": st.integers(1, 9), "max_increase": st.integers(1, 9), "sites": st.just({})},
)


@settings(max_examples=60)
@given(
    CAPS,
    CAPS,
    st.dictionaries(st.just("dc1"), st.integers(1, 9)),
    st.dictionaries(st.just("dc1"), st.integers(1, 9)),
)
def test_no_cap_is_above_the_one_before(
    old: dict[str, Any], new: dict[str, Any], old_sites: dict[str, int], new_sites: dict[str, int]
) -> None:
    def build(caps: dict[str, Any], sites: dict[str, int]) -> FleetSpec:
        amounts = {name: f"{usd}000 USD" for name, usd in caps.items() if name != "sites"}
        by_site = {name: f"{usd}000 USD" for name, usd in sites.items()}
        return spec({**amounts, "sites": by_site}, onprem=[PRICED_RACKS])

    before, after = build(old, old_sites), build(new, new_sites)
    budget = stricter(before, after).shared.spec.budget  # type: ignore[union-attr]
    for name in ("monthly", "upfront", "max_increase"):
        caps = [
            getattr(each.budget, name) for each in (before, after) if getattr(each.budget, name) is not None
        ]
        lowest = min(caps, key=lambda each: each.amount, default=None)
        assert getattr(budget, name) == lowest
    sites = [each.budget.sites["dc1"] for each in (before, after) if "dc1" in each.budget.sites]
    assert budget.sites.get("dc1") == min(sites, key=lambda each: each.amount, default=None)


def test_cap_of_a_site_that_the_change_removes_goes_with_it() -> None:
    before = spec({"sites": {"dc1": "10 USD"}}, onprem=[PRICED_RACKS])
    after = spec()
    assert stricter(before, after).shared.spec == after


SITE: dict[str, Any] = example_fleet()["cloud"][0]
SERVE: dict[str, Any] = SITE["node_groups"][0]


def site(name: str = "use1", **groups: Mapping[str, Any]) -> dict[str, Any]:
    """A site with the node group `serve` by other names and with other fields."""
    built = [{**SERVE, "name": each, **more} for each, more in (groups or {"serve": {}}).items()]
    return {**SITE, "site": name, "node_groups": built}


@pytest.mark.parametrize(
    ("budget", "after", "name", "capped"),
    [
        ({"teams": {"serving": "10 USD"}}, site(serve={"team": "other"}), "use1/serve", "10 USD"),
        ({"teams": {"serving": "10 USD"}}, site(serve={"team": None}), "use1/serve", "10 USD"),
        ({"teams": {"serving": "10 USD"}}, site(), "use1/serve", None),
        ({"node_groups": {"use1/serve": "20 USD"}}, site(serve2={}), "use1/serve2", "20 USD"),
        ({"node_groups": {"use1/serve": "20 USD"}}, site(serve={}, serve2={}), "use1/serve2", None),
        ({"node_groups": {"use1/serve": "20 USD"}}, site("usw2", serve={}), "usw2/serve", None),
    ],
)
def test_cap_follows_a_node_group_to_another_team_or_name(
    budget: dict[str, Any], after: dict[str, Any], name: str, capped: str | None
) -> None:
    found = stricter(spec(budget, cloud=[site()]), spec(cloud=[after])).shared.spec
    assert found is not None
    cap = found.budget.node_groups.get(name)
    assert (str(cap) if cap is not None else None) == capped


def test_cap_follows_a_site_to_another_name() -> None:
    found = stricter(
        spec({"sites": {"use1": "10 USD"}}, cloud=[site()]), spec(cloud=[site("use9")])
    ).shared.spec
    assert found is not None
    assert str(found.budget.sites["use9"]) == "10 USD"


EXEMPTIONS = st.fixed_dictionaries(
    {
        "rule": st.sampled_from(("storage-survives", "budget-by-team", "guardrails-loosened")),
        "resource": st.sampled_from(("stack", "checkpoints", "checkpoints*", "atlas-prod-*", "urn:x::y::z")),
        "reason": st.just("x"),
        "approver": st.sampled_from(("ana", "x", "-")),
        "expires": st.dates(dt.date(2026, 1, 1), dt.date(9999, 12, 31)).map(str),
    }
)


@settings(max_examples=60)
@given(st.lists(EXEMPTIONS, max_size=3), st.lists(EXEMPTIONS, max_size=3))
def test_no_form_of_an_exemption_counts_in_its_own_change(
    old: list[dict[str, str]], new: list[dict[str, str]]
) -> None:
    before, after = spec(exemptions=old), spec(exemptions=new)
    for each in stricter(before, after).exemptions:
        known = [one for one in before.exemptions if (one.rule, one.resource) == (each.rule, each.resource)]
        assert max(one.expires for one in known) >= each.expires
        counts = is_in_force(each, dt.date(2026, 11, 1))
        assert not counts or each.expires <= dt.date(2027, 11, 2), "none lasts longer than a year"


def assuming(amounts: dict[str, str]) -> dict[str, Any]:
    return level("budget-unknown-cost", None, assume=amounts)


@pytest.mark.parametrize(
    ("old", "new", "key", "amount"),
    [
        ({"db": "900 USD"}, {"db": "1 USD"}, "db", "900 USD"),
        ({"db-*": "900 USD"}, {"db-*": "900 USD", "db-one": "1 USD"}, "db-one", "900 USD"),
        ({"db-*": "900 USD"}, {"d*-one": "1 USD"}, "db-*", "900 USD"),
        ({"db-*": "900 USD"}, {"db-one/storage": "1 USD"}, "db-one/storage", "900 USD"),
        ({"db-*": "900 USD"}, {}, "db-*", "900 USD"),
        ({"serve": "900 USD"}, {"serve/compute": "1 USD"}, "serve/compute", "1 USD"),
        ({"db": "900 USD"}, {"db": "1000 USD", "other": "1 USD"}, "other", "1 USD"),
    ],
)
def test_assumed_amount_is_lowered_by_no_other_key(
    old: dict[str, str], new: dict[str, str], key: str, amount: str
) -> None:
    found = stricter(spec(**assuming(old)), spec(**assuming(new))).shared.spec
    assert found is not None
    assert found.policies["budget-unknown-cost"].settings["assume"][key] == amount


@pytest.mark.parametrize(
    "change",
    [
        {"ownership": None},
        {"power": None},
        {"running_costs": None},
        {"running_costs": {"colocation": "8999 USD", "staff": "1 USD"}},
        {"ownership": {"acquisition": "20000 USD", "lifetime": "9 y"}},
        {"power": {"per_rack": "40 kW", "pue": 1.0, "price": "0.01 USD/kWh"}},
    ],
)
def test_cheaper_racks_make_no_room_in_the_budget(change: dict[str, Any]) -> None:
    racks = {**PRICED_RACKS, "running_costs": {"colocation": "9000 USD", "staff": "1 USD"}}
    before, after = spec(onprem=[racks]), spec(onprem=[{**racks, **change}])
    found = stricter(before, after)
    assert found.differ
    assert found.shared.plan is not None
    full = price_plan(build_plan(before, CATALOG), CATALOG).total
    assert price_plan(found.shared.plan, CATALOG).total == full
    assert stricter(after, before).shared.spec == before, "dearer ones count at once"


def test_assumed_amount_is_not_lowered_and_a_new_one_counts() -> None:
    def assuming(**amounts: str) -> FleetSpec:
        return spec(**level("budget-unknown-cost", None, assume=amounts))

    found = stricter(assuming(a1="50 USD", gone="9 USD"), assuming(a1="5 USD", b2="7 USD"))
    assert found.shared.plan is not None
    assert found.shared.plan.budget.assume == {"a1": 50, "gone": 9, "b2": 7}
    assert not stricter(assuming(a1="5 USD"), assuming(a1="50 USD")).differ


def test_required_tag_stays_required() -> None:
    before, after = spec(required_tags=["team", "owner"]), spec(required_tags=["team"])
    assert stricter(before, after).shared.spec.required_tags == ("team", "owner")  # type: ignore[union-attr]


def test_tightened_limits_are_those_of_the_change() -> None:
    before = spec({"monthly": "9000 USD"}, exemptions=[EXEMPTION])
    after = spec({"monthly": "1000 USD"}, **level("budget-by-team", "mandatory"))
    found = stricter(before, after)
    assert not found.differ
    assert found.shared.spec == after
