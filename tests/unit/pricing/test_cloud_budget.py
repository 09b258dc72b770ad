"""The part of a budget that AWS watches."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.catalog import load_catalog
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing import price_plan
from gpufleet.pricing.cloud_budget import LEAST, cloud_budgets
from gpufleet.spec.load import load_fleet

ROOT = Path(__file__).resolve().parents[3]
CATALOG = load_catalog()


def plan(environment: str = "sandbox", **budget: Any) -> FleetPlan:
    found = build_plan(load_fleet(environment, root=ROOT).spec, CATALOG)
    return replace(found, budget=replace(found.budget, **budget))


def racks(of: FleetPlan) -> Decimal:
    by_site = price_plan(of, CATALOG).by("site")
    return sum((by_site[site.site].expected for site in of.onprem), Decimal(0))


def test_racks_leave_the_rest_to_the_cloud() -> None:
    fleet = plan()
    (whole,) = cloud_budgets(fleet)
    assert racks(fleet) > 0
    assert 0 <= fleet.budget.monthly - racks(fleet) - whole.monthly < 1
    assert whole.tags == {"gpufleet:fleet": "atlas", "gpufleet:environment": "sandbox"}
    assert whole.basis.startswith("45,000 USD - ")


def test_fleet_without_racks_has_the_exact_amount() -> None:
    fleet = replace(plan(monthly=Decimal("1234.50")), onprem=())
    assert [each.monthly for each in cloud_budgets(fleet)] == [Decimal("1234.50")]


def test_fleet_without_a_cloud_has_no_budget_in_aws() -> None:
    assert cloud_budgets(replace(plan(), cloud=())) == ()


def test_caps_of_all_cloud_sites_bound_the_whole() -> None:
    caps = {"use1": Decimal(2000), "usw2": Decimal(500), "lab": Decimal(99999)}
    whole, *sites = cloud_budgets(plan(sites=caps))
    assert whole.monthly == 2500
    assert [(each.kind, each.name, each.monthly) for each in sites] == [
        ("site", "use1", 2000),
        ("site", "usw2", 500),
    ]
    assert sites[0].tags["gpufleet:site"] == "use1"


def test_caps_above_what_the_racks_leave_do_not_raise_the_whole() -> None:
    fleet = plan(sites={"use1": Decimal(90000), "usw2": Decimal(90000)})
    assert cloud_budgets(fleet)[0].monthly == cloud_budgets(plan())[0].monthly


def test_one_site_without_a_cap_leaves_the_whole_alone() -> None:
    whole, *_ = cloud_budgets(plan(sites={"use1": Decimal(2000)}))
    assert whole.monthly == cloud_budgets(plan())[0].monthly


def test_team_cap_filters_by_the_team() -> None:
    _, team = cloud_budgets(plan(teams={"research": Decimal(700)}))
    assert (team.kind, team.name, team.monthly) == ("team", "research", 700)
    assert team.tags["gpufleet:team"] == "research"
    assert team.tags["gpufleet:environment"] == "sandbox"


def test_unknown_cost_of_racks_is_said_and_a_cap_takes_its_place() -> None:
    fleet = plan()
    dark = replace(fleet, onprem=tuple(replace(site, power=None) for site in fleet.onprem))
    (whole,) = cloud_budgets(dark)
    assert whole.complete is False
    assert whole.monthly > cloud_budgets(fleet)[0].monthly
    capped = replace(dark, budget=replace(dark.budget, sites={"lab": Decimal(20000)}))
    (whole,) = cloud_budgets(capped)
    assert whole.complete is True
    assert whole.monthly == 25000
    nothing = [replace(site, power=None, ownership=None, running_costs={}) for site in fleet.onprem]
    (whole,) = cloud_budgets(replace(fleet, onprem=tuple(nothing)))
    assert (whole.complete, whole.basis) == (False, "45,000 USD")


@pytest.mark.parametrize("monthly", [1, 500])
def test_budget_that_the_racks_use_up_alerts_at_the_first_dollar(monthly: int) -> None:
    assert cloud_budgets(plan(monthly=Decimal(monthly)))[0].monthly == LEAST
