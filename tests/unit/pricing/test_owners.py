"""The owner of a resource's cost, and assumptions for resources without a price."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.plan import build_plan
from gpufleet.plan.assumptions import amount_of, assumptions_of
from gpufleet.policies.rules.budget._caps import example_fleet
from gpufleet.policy import examples
from gpufleet.pricing import CostLine, price_stack
from gpufleet.pricing.assume import key_for
from gpufleet.resources.resource import UNKNOWN
from gpufleet.spec.models import FleetSpec
from tests.unit.pricing.racks import PRICED_RACKS
from tests.unit.pricing.stacks import CATALOG, cost, scaling_group, template

PLAN = build_plan(FleetSpec.model_validate(example_fleet()), CATALOG)
NAT = "aws:ec2/natGateway:NatGateway"
KEY = "aws:kms/key:Key"
TAGS = {"gpufleet:site": "use1", "gpufleet:node-group": "serve", "gpufleet:team": "serving"}


def compute(*described: dict[str, Any], **more: Any) -> CostLine:
    return next(line for line in cost(*described, **more).lines if line.kind == "compute")


def owner(line: CostLine) -> tuple[str, str, str]:
    return line.site, line.owner, line.team


def listed(tags: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value, "propagateAtLaunch": True} for key, value in tags.items()]


def test_tags_name_the_owner_of_a_group() -> None:
    assert owner(compute(template(), scaling_group(tags=listed(TAGS)))) == ("use1", "serve", "serving")


def test_launch_template_tags_are_used_if_the_group_has_none() -> None:
    assert owner(compute(template(tags=TAGS), scaling_group())) == ("use1", "serve", "serving")


def test_changed_tags_move_no_cost_of_a_planned_group() -> None:
    planned = {"name": "atlas-prod-use1-serve"}
    for tags in ([], listed({**TAGS, "gpufleet:node-group": "other", "gpufleet:team": "others"})):
        line = compute(template(), scaling_group(tags=tags) | planned, plan=PLAN)
        assert owner(line) == ("use1", "serve", "serving")


def test_component_with_a_planned_name_owns_its_children() -> None:
    component = {"type": "gpufleet:node_group:NodeGroup", "name": "atlas-prod-use1-serve"}
    child = scaling_group() | {"parent": "atlas-prod-use1-serve"}
    assert owner(compute(component, template(), child, plan=PLAN)) == ("use1", "serve", "serving")


def test_team_of_a_planned_group_comes_from_the_plan() -> None:
    tags = listed({**TAGS, "gpufleet:team": "others"})
    assert compute(template(), scaling_group(tags=tags), plan=PLAN).team == "serving"


def test_team_of_a_planned_group_without_one_is_empty() -> None:
    fleet = example_fleet()
    del fleet["cloud"][0]["node_groups"][0]["team"]
    plan = build_plan(FleetSpec.model_validate(fleet), CATALOG)
    tags = listed({**TAGS, "gpufleet:team": "others"})
    assert compute(template(), scaling_group(tags=tags), plan=plan).team == ""


@pytest.mark.parametrize(
    ("kind", "name", "tags", "found"),
    [
        (NAT, "one", {}, ("", "")),
        (NAT, "one", {"gpufleet:site": "usw2"}, ("usw2", "network")),
        (NAT, "one", {"gpufleet:site": "usw2", "gpufleet:storage": "scratch"}, ("usw2", "scratch")),
        (NAT, "atlas-prod-use1", {"gpufleet:site": "usw2"}, ("use1", "network")),
        (NAT, "atlas-prod-use1-flow-logs", {}, ("", "")),
        (KEY, "atlas-prod-use1", {}, ("use1", "control-plane")),
        (KEY, "atlas-prod-use1-flow-logs", {}, ("use1", "network")),
        (KEY, "one", {}, ("", "")),
    ],
)
def test_services_of_a_site_have_its_owners(
    kind: str, name: str, tags: dict[str, str], found: tuple[str, str]
) -> None:
    described = {"type": kind, "name": name, "props": {"tags": tags}}
    (line,) = (line for line in cost(described, plan=PLAN).lines if line.urn)
    assert (line.site, line.owner) == found


def test_child_of_a_planned_site_belongs_to_it() -> None:
    site = {"type": "gpufleet:network:Network", "name": "atlas-prod-use1"}
    line = compute(site, template(), scaling_group() | {"parent": "atlas-prod-use1"}, plan=PLAN)
    assert (line.site, line.owner) == ("use1", "")


def test_secret_tags_name_no_owner() -> None:
    group = scaling_group(tags=listed(TAGS))
    assert owner(compute(template(), group | {"secrets": ["tags"]})) == ("", "", "")


def test_unknown_tag_leaves_the_others() -> None:
    group = scaling_group(tags=[UNKNOWN, *listed(TAGS)])
    assert owner(compute(template(), group)) == ("use1", "serve", "serving")


@pytest.mark.parametrize("blank", ["", "  ", UNKNOWN])
@pytest.mark.parametrize("written", [listed, dict])
def test_blank_and_unknown_tags_name_no_owner(blank: Any, written: Any) -> None:
    found = cost(template(), scaling_group(tags=written(dict.fromkeys(TAGS, blank))), plan=PLAN)
    assert {owner(line) for line in found.lines if line.urn} == {("", "", "")}
    assert found.by("team")[""].expected == found.total.expected


def test_tag_in_another_case_is_another_tag() -> None:
    tags = listed({key.upper(): value for key, value in TAGS.items()})
    assert owner(compute(template(), scaling_group(tags=tags), plan=PLAN)) == ("", "", "")


def gateway(name: str, region: str = "us-gov-west-1") -> dict[str, Any]:
    return {"type": NAT, "name": name, "region": region, "props": {}}


def test_assumed_amount_counts_and_is_marked_as_assumed() -> None:
    (line,) = cost(gateway("nat-a"), assumptions={"nat-*": Decimal(40)}).lines
    assert (line.minimum, line.expected, line.maximum) == (Decimal(40),) * 3
    assert line.assumed
    assert "no price of NAT gateway" in line.basis
    assert line.source == "fleet file"


def test_key_of_nodes_covers_nodes_alone() -> None:
    (line,) = cost(gateway("nat-a")).lines
    assert (key_for(line), key_for(replace(line, kind="compute"))) == ("nat-a", "nat-a/compute")


@pytest.mark.parametrize("pattern", ["nat-?", "nat-?/network", "nat-a/*"])
def test_pattern_matches_the_name_or_the_name_and_kind(pattern: str) -> None:
    assert cost(gateway("nat-a"), assumptions={pattern: Decimal(40)}).total.expected == 40


def test_each_resource_of_a_pattern_counts_separately() -> None:
    found = cost(gateway("nat-a"), gateway("nat-b"), gateway("other"), assumptions={"nat-*": Decimal(40)})
    assert found.total.expected == 80
    assert [line.name for line in found.unknown] == ["other"]


def test_assumptions_of_the_plan_count() -> None:
    settings = {"assume": {"nat-*": "40 USD"}}
    fleet = {**example_fleet(), "policies": {"budget-unknown-cost": {"settings": settings}}}
    plan = build_plan(FleetSpec.model_validate(fleet), CATALOG)
    found = price_stack(examples.stack([gateway("nat-a")]), CATALOG, plan=plan)
    assert found.total.expected == 40


def test_assumption_replaces_an_estimate_but_not_below_the_lowest_known_price() -> None:
    estimated = cost(gateway("nat-a", "eu-south-1")).lines[0]
    assert estimated.estimated
    low = Decimal("32.85")
    assert (estimated.minimum, estimated.expected, estimated.maximum) == (
        low,
        730 * Decimal("0.12555"),
        730 * Decimal("0.12555"),
    )
    for stated, counted in ((40, 40), (500, 500), (1, low)):
        (line,) = cost(gateway("nat-a", "eu-south-1"), assumptions={"nat-*": Decimal(stated)}).lines
        assert line.assumed and not line.estimated
        assert line.expected == line.maximum
        assert abs(line.expected - counted) < Decimal("0.001")


def test_known_price_overrides_an_assumption() -> None:
    (line,) = cost(gateway("nat-a", "us-east-1"), assumptions={"nat-*": Decimal(1)}).lines
    assert not line.assumed
    assert line.expected == Decimal("32.85")


@pytest.mark.parametrize("key", ["group", "gro*", "group/*", "*/compute"])
def test_nodes_are_covered_only_by_their_own_key(key: str) -> None:
    unknown = scaling_group(maxSize=UNKNOWN)
    assert cost(template(), unknown, assumptions={key: Decimal(10)}).unknown != ()
    known = cost(template(), unknown, assumptions={"group/compute": Decimal(10)})
    assert known.unknown == ()
    assert known.total.expected == 10


def test_exact_name_overrides_a_pattern_and_the_most_expensive_pattern_counts() -> None:
    both = {"nat-a": Decimal(7), "nat-*": Decimal(40), "na*": Decimal(50)}
    assert cost(gateway("nat-a"), assumptions=both).total.expected == 7
    assert cost(gateway("nat-b"), assumptions=both).total.expected == 50


@pytest.mark.parametrize(
    ("pattern", "text"), [("*", "5 USD"), ("?*", "5 USD"), ("a", "0 USD"), ("a", "5 EUR"), ("a", "much")]
)
def test_assumption_that_matches_everything_or_nothing_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"USD|resource"):
        amount_of(pattern, text)


def test_assumptions_come_from_the_fleet_file() -> None:
    settings = {"assume": {"nat-*": "40 USD", "bad": "0 USD"}}
    fleet = {**example_fleet(), "policies": {"budget-unknown-cost": {"settings": settings}}}
    assert assumptions_of(FleetSpec.model_validate(fleet)) == {"nat-*": Decimal(40)}
    assert assumptions_of(FleetSpec.model_validate(example_fleet())) == {}
    assert assumptions_of(None) == {}


def racks(**changes: Any) -> Any:
    given = {key: each for key, each in {**PRICED_RACKS, **changes}.items() if each is not None}
    fleet = {**example_fleet(), "onprem": [given]}
    return cost(plan=build_plan(FleetSpec.model_validate(fleet), CATALOG))


def test_racks_cost_electricity_and_ownership() -> None:
    found = racks()
    assert {line.kind for line in found.lines} == {"power", "ownership"}
    assert {(line.urn, line.name, line.site) for line in found.lines} == {("", "dc1", "dc1")}
    assert found.by("site")["dc1"].expected == found.total.expected > 4 * 270000 / 60


@pytest.mark.parametrize(
    "changes",
    [
        {"ownership": {"acquisition": "0 USD", "lifetime": "5 y"}},
        {"power": {"per_rack": "40 kW", "pue": 1.25, "price": "0 USD/kWh"}},
        {"power": None},
    ],
)
def test_racks_or_electricity_at_zero_cost_are_unknown(changes: dict[str, Any]) -> None:
    (line,) = racks(**changes).unknown
    assert line.site == "dc1"
    assert line.reason
