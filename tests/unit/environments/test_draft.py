"""The fleet file of a new environment: it validates, is priced, and has a sufficient budget."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpufleet.catalog import load_catalog
from gpufleet.checks import ValidFleet, validate
from gpufleet.environments import Choices, draft_environment, fill, last_day
from gpufleet.errors import InputError
from gpufleet.plan import build_plan
from gpufleet.plan.assumptions import assumptions_of
from gpufleet.pricing import price_plan
from gpufleet.spec.init import TEMPLATES, write_environment
from gpufleet.spec.quantity import Money

CATALOG = load_catalog()
ROOT = Path(__file__).resolve().parents[3]
DOUBTS = {"price-age", "spot-price-unseen"}


def written(root: Path, template: str, name: str = "lab", **chosen: Any) -> ValidFleet:
    """The result of the template with these choices, validated."""
    choices = Choices(template)
    for item, value in chosen.items():
        choices = fill(choices, CATALOG, item, value)
    write_environment(root, name, template, draft_environment(choices, name, "zeus", CATALOG).text)
    return validate(name, root=root, catalog=CATALOG)


@pytest.mark.parametrize("name", ["dev", "prod", "lab7-2nd", "a" * 24])
@pytest.mark.parametrize("template", TEMPLATES)
def test_template_is_valid_and_priced_under_any_name(tmp_path: Path, template: str, name: str) -> None:
    validated = written(tmp_path, template, name)
    assert {finding.rule for finding in validated.findings} <= {"price-age"}
    spec = validated.loaded.spec
    assert (spec.fleet, spec.environment) == ("zeus", name)
    cost = price_plan(build_plan(spec, CATALOG), CATALOG)
    assert cost.unknown == ()
    highest = cost.total.maximum
    assert 0 < highest < spec.budget.monthly.amount < highest * Decimal("1.25")
    assert validated.loaded.path.read_text().count("#") > 5


@pytest.mark.parametrize(
    ("template", "cloud", "onprem"),
    [("sandbox", 1, 0), ("cloud", 1, 0), ("onprem", 0, 1), ("hybrid", 1, 1)],
)
def test_template_has_the_sites_of_its_name(tmp_path: Path, template: str, cloud: int, onprem: int) -> None:
    spec = written(tmp_path, template).loaded.spec
    assert (len(spec.cloud), len(spec.onprem)) == (cloud, onprem)


@pytest.mark.parametrize("region", ["eu-north-1", "eu-central-1", "us-west-2", "ap-northeast-1"])
@pytest.mark.parametrize("template", ["sandbox", "cloud"])
def test_region_gets_available_types_and_nothing_is_without_a_price(
    tmp_path: Path, template: str, region: str
) -> None:
    validated = written(tmp_path, template, regions=region)
    assert {finding.rule for finding in validated.findings} <= DOUBTS
    (site,) = validated.loaded.spec.cloud
    assert site.region == region
    assert all(zone in CATALOG.zones(region) for zone in site.zones)
    for group in site.node_groups:
        assert all(region in CATALOG.instance(each).regions for each in group.instance_types)
    assert price_plan(validated.plan, CATALOG).unknown == ()
    assert not assumptions_of(validated.loaded.spec)


def test_several_regions_are_separate_sites_and_one_trains(tmp_path: Path) -> None:
    validated = written(tmp_path, "hybrid", regions="us-east-1, us-west-2 eu-north-1", cloud_nodes="2")
    sites = validated.loaded.spec.cloud
    assert [site.region for site in sites] == ["us-east-1", "us-west-2", "eu-north-1"]
    assert len({site.site for site in sites}) == len({site.network.cidr for site in sites}) == 3
    trained = [site.site for site in sites for group in site.node_groups if group.workload == "training"]
    assert trained == [sites[0].site]
    block = sites[0].node_groups[0].capacity.reserved
    assert block is not None
    assert block.capacity_block is not None
    assert block.capacity_block.nodes == 2


@pytest.mark.parametrize("system", sorted(CATALOG.systems))
@pytest.mark.parametrize("nodes", [1, 300])
def test_racks_hold_the_requested_number_of_nodes_of_any_system(
    tmp_path: Path, system: str, nodes: int
) -> None:
    validated = written(tmp_path, "onprem", system=system, nodes=str(nodes))
    (site,) = validated.loaded.spec.onprem
    # Where no source has the names of a system's rails, the site has to list them.
    rails = () if CATALOG.systems[system].rails else ("fabric-rails",)
    assert tuple(finding.rule for finding in validated.findings) == rails
    assert {finding.severity for finding in validated.findings} <= {"warning"}
    assert (site.system, len(site.nodes.hosts)) == (system, nodes)
    cost = price_plan(build_plan(validated.loaded.spec, CATALOG), CATALOG)
    assert cost.unknown == ()
    assumed = {item.site for item in cost.lines if item.assumed}
    assert assumed == set(assumptions_of(validated.loaded.spec))


def test_given_budget_is_used_and_refused_if_the_fleet_exceeds_it() -> None:
    draft = draft_environment(Choices("onprem"), "lab", "zeus", CATALOG, budget=Money.parse("70000 USD"))
    assert "monthly: 70000 USD" in draft.text
    with pytest.raises(InputError, match="the budget is 20000 USD") as caught:
        draft_environment(Choices("onprem"), "lab", "zeus", CATALOG, budget=Money.parse("20000 USD"))
    offered = str(caught.value.remedy).split("'")[1]
    draft_environment(Choices("onprem"), "lab", "zeus", CATALOG, budget=Money.parse(offered))


def test_combined_names_that_are_too_long_are_refused_with_a_remedy() -> None:
    with pytest.raises(InputError, match="AWS allows 64") as caught:
        draft_environment(Choices("cloud"), "ab" * 12, "yz" * 12, CATALOG)
    assert "shorten" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("template", "item", "value", "message", "remedy"),
    [
        ("cloud", "regions", "us-east1", "no region 'us-east1'", "did you mean us-east-1?"),
        ("cloud", "regions", "us-east-1 us-east-1", "occurs twice", "once"),
        ("cloud", "regions", "ap-southeast-4", "offers none of the types", "eu-north-1"),
        ("cloud", "cloud_nodes", "65", "65 nodes in one Capacity Block", "1 to 64"),
        ("cloud", "cloud_nodes", "0", "0 nodes", "1 to"),
        ("onprem", "system", "dgx-h10", "no system 'dgx-h10'", "did you mean dgx-h100?"),
        ("onprem", "nodes", "0", "0 GPU nodes", "1 to 9,999"),
        ("onprem", "nodes", "-4", "is not a number of nodes", "whole number"),
        ("onprem", "nodes", "many", "is not a number of nodes", "whole number"),
    ],
)
def test_unknown_values_are_refused_with_the_known_ones(
    template: str, item: str, value: str, message: str, remedy: str
) -> None:
    with pytest.raises(InputError) as caught:
        fill(Choices(template), CATALOG, item, value)
    assert message in caught.value.message
    assert remedy in str(caught.value.remedy)


def test_environment_with_a_temporary_name_expires_within_the_limit_of_the_rule(
    tmp_path: Path,
) -> None:
    today = dt.date(2031, 5, 1)
    day = last_day(ROOT, "test-7", today)
    assert day is not None
    assert 20 < (day - today).days < 30
    assert (
        f"expires: {day}" in draft_environment(Choices("cloud"), "test-7", "zeus", CATALOG, expires=day).text
    )
    assert last_day(ROOT, "contest", today) is None
    # A repository without rules of its own is judged by those of gpufleet.
    assert last_day(tmp_path, "test-7", today) == day
