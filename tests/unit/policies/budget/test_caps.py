"""The caps: in all, at maximum, by site, by node group, by team."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.policies.rules.budget._caps import example_fleet, example_nodes
from gpufleet.policies.rules.budget.budget_at_maximum import budget_at_maximum
from gpufleet.policies.rules.budget.budget_by_node_group import budget_by_node_group
from gpufleet.policies.rules.budget.budget_by_site import budget_by_site
from gpufleet.policies.rules.budget.budget_by_team import budget_by_team
from gpufleet.policies.rules.budget.budget_monthly import budget_monthly
from gpufleet.policies.rules.budget.budget_unknown_cost import budget_unknown_cost
from gpufleet.policies.rules.budget.budget_upfront import budget_upfront
from gpufleet.policy import examples
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.policy.rule import Example, Rule
from gpufleet.resources.resource import UNKNOWN
from tests.unit.pricing.racks import PRICED_RACKS

NODE = 603.504
STACK_RULES = (
    budget_monthly,
    budget_at_maximum,
    budget_by_site,
    budget_by_node_group,
    budget_by_team,
    budget_upfront,
    budget_unknown_cost,
)


def judged(rule: Rule[Any], resources: Any, *, settings: Any = None, **budget: Any) -> list[RuleViolation]:
    return examples.evaluate(
        rule, Example(tuple(resources), settings=settings, fleet=example_fleet(**budget))
    )


@pytest.mark.parametrize("rule", STACK_RULES, ids=lambda rule: rule.name)
def test_missing_fleet_file_fails_closed_with_one_message(rule: Rule[Any]) -> None:
    (found,) = examples.evaluate(rule, Example(example_nodes(1)))
    assert "has no fleet file" in found.message
    assert found.violation.unknown
    assert found.level == "mandatory"


def test_message_has_cost_cap_and_most_expensive_part() -> None:
    (found,) = judged(budget_monthly, example_nodes(9))
    assert "5,432 USD" in found.message
    assert "5000 USD" in found.message
    assert "node-" in found.violation.remedy
    assert found.violation.fleet_field == "budget.monthly"


def test_cost_equal_to_the_budget_passes() -> None:
    assert judged(budget_monthly, example_nodes(1), monthly="603.51 USD") == []
    assert judged(budget_monthly, example_nodes(1), monthly="603.50 USD") != []


def test_on_premises_cost_counts_in_the_budget_and_its_site() -> None:
    racks = {key: each for key, each in PRICED_RACKS.items() if key != "ownership"}
    fleet = {**example_fleet(monthly="2000 USD", sites={"dc1": "1000 USD"}), "onprem": [racks]}
    example = Example((), fleet=fleet)
    assert "2,867 USD" in examples.evaluate(budget_monthly, example)[0].message
    (found,) = examples.evaluate(budget_by_site, example)
    assert found.violation.fleet_field == "budget.sites.dc1"


def test_sum_with_unknown_parts_is_a_lower_bound() -> None:
    unknown = {"type": "aws:ec2/dedicatedHost:DedicatedHost", "name": "host"}
    (found,) = judged(budget_monthly, (*example_nodes(9), unknown))
    assert "at least 5,432 USD" in found.message


def test_maximum_has_both_amounts_and_may_be_a_share_of_the_budget() -> None:
    resources = budget_at_maximum.fails.resources
    (found,) = judged(budget_at_maximum, resources)
    assert "48,280 USD a month (0.00 USD at the requested size)" in found.message
    assert judged(budget_at_maximum, resources, settings={"share": 1000}) == []
    (narrow,) = judged(budget_at_maximum, budget_at_maximum.passes.resources, settings={"share": 50})
    assert "50% are allowed" in narrow.message


def test_maximum_raised_by_a_later_schedule_is_found() -> None:
    template, group = budget_at_maximum.passes.resources
    schedule = {
        "type": "aws:autoscaling/schedule:Schedule",
        "name": "later",
        "props": {"autoscalingGroupName": UNKNOWN, "maxSize": 80, "minSize": -1, "desiredCapacity": -1},
        "depends": {"autoscalingGroupName": ["atlas-prod-use1-serve"]},
    }
    assert judged(budget_at_maximum, (template, group)) == []
    assert judged(budget_at_maximum, (template, group, schedule)) != []


@pytest.mark.parametrize(
    ("rule", "field", "name"),
    [
        (budget_by_site, "sites", "use9"),
        (budget_by_node_group, "node_groups", "use1/other"),
        (budget_by_team, "teams", "nobody"),
    ],
)
def test_cap_of_an_unknown_owner_is_a_violation(rule: Rule[Any], field: str, name: str) -> None:
    (found,) = judged(rule, example_nodes(1), **{field: {name: "9000 USD"}})
    assert "does not exist" in found.message
    assert name in found.message


@pytest.mark.parametrize(
    ("rule", "field", "name"),
    [
        (budget_by_site, "sites", "use1"),
        (budget_by_node_group, "node_groups", "use1/serve"),
        (budget_by_team, "teams", "serving"),
    ],
)
@pytest.mark.parametrize(
    "tags",
    [
        {"gpufleet:site": "", "gpufleet:node-group": ""},
        {"gpufleet:site": "  ", "gpufleet:node-group": " "},
        {"gpufleet:site": "USE1", "gpufleet:node-group": "Serve"},
        {"gpufleet:site": "use7", "gpufleet:node-group": "mine"},
    ],
)
def test_nodes_without_an_owner_are_found_if_there_are_caps(
    rule: Rule[Any], field: str, name: str, tags: dict[str, str]
) -> None:
    nodes = example_nodes(1, **tags)
    found = judged(rule, nodes, **{field: {name: "100 USD"}})
    assert found != []
    assert all("no cap includes it" in each.message for each in found)
    assert all(each.urn.endswith("::node-0") for each in found)
    assert judged(rule, nodes) == []


def test_team_tag_cannot_move_the_cost_of_a_group_to_another_team() -> None:
    caps = {"serving": "100 USD"}
    nodes = example_nodes(1, **{"gpufleet:team": "research"})
    (found,) = judged(budget_by_team, nodes, teams=caps)
    assert "team serving costs" in found.message


@pytest.mark.parametrize(
    ("rule", "field", "name"),
    [
        (budget_by_site, "sites", "use1"),
        (budget_by_node_group, "node_groups", "use1/serve"),
        (budget_by_team, "teams", "serving"),
    ],
)
def test_caps_can_be_compared_with_the_maximum_cost(rule: Rule[Any], field: str, name: str) -> None:
    resources = budget_at_maximum.passes.resources
    caps = {field: {name: "1000 USD"}}
    assert judged(rule, resources, **caps) == []
    (found,) = judged(rule, resources, settings={"size": "maximum"}, **caps)
    assert "at its maximum size" in found.message


def test_every_resource_of_unknown_cost_is_named_with_its_reason() -> None:
    hosts = [{"type": "aws:ec2/dedicatedHost:DedicatedHost", "name": f"host-{n}"} for n in range(2)]
    found = judged(budget_unknown_cost, hosts)
    assert [each.urn.split("::")[-1] for each in found] == ["host-0", "host-1"]
    assert all(each.violation.unknown and each.level == "mandatory" for each in found)
    assert "no price is known" in found[0].message


def test_unknown_size_fails_closed() -> None:
    template, group = budget_at_maximum.passes.resources
    open_size = {**group, "props": {**group["props"], "maxSize": UNKNOWN}}
    (found,) = judged(budget_unknown_cost, (template, open_size))
    assert "maxSize is not known yet" in found.message
    assert "atlas-prod-use1-serve/compute" in found.violation.remedy


def test_assumption_outside_the_fleet_file_is_reported_as_ineffective() -> None:
    gateway = budget_unknown_cost.passes.resources
    found = judged(budget_unknown_cost, gateway, settings={"assume": {"atlas-prod-use1-nat-*": "40 USD"}})
    assert any("only in the configuration of this run" in each.message for each in found)
    assert any("NAT gateway in us-gov-west-1" in each.message for each in found)


def test_assumed_amount_counts_against_the_budget() -> None:
    settings = {"assume": {"atlas-prod-use1-nat-*": "6000 USD"}}
    fleet = {**example_fleet(), "policies": {"budget-unknown-cost": {"settings": settings}}}
    (found,) = examples.evaluate(budget_monthly, Example(budget_unknown_cost.passes.resources, fleet=fleet))
    assert "6,000 USD" in found.message


@pytest.mark.parametrize("assume", [{"*": "5 USD"}, {"a": "0 USD"}, {"a": "5 EUR"}])
def test_assumptions_that_would_disable_the_rule_are_refused(assume: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"USD|resource"):
        budget_unknown_cost.settings.model_validate({"assume": assume})
