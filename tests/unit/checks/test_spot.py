"""Spot capacity."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace

from gpufleet.catalog import Catalog
from gpufleet.catalog.models import UsageClass
from gpufleet.checks import ALL_CHECKS
from gpufleet.checks.rules import Fleet
from gpufleet.spec.load import load_fleet
from tests.unit.checks.fleets import NOW, Judge

GROUP = "cloud.0.node_groups.3"
SHORTAGE = f"{GROUP}.capacity.spot.on_shortage"


def test_spot_on_a_type_without_it_is_refused(judge: Judge) -> None:
    reported = judge({f"{GROUP}.instance_types": ["trn2u.48xlarge"]})
    finding = reported.of("spot-unsupported")[0]
    assert finding.severity == "error"
    assert finding.field == "cloud[0].node_groups[3].instance_types[0]"
    assert finding.value == "trn2u.48xlarge"
    assert "on_demand" in finding.remedy


def test_spot_on_a_type_without_a_spot_price_is_a_warning(judge: Judge) -> None:
    reported = judge({f"{GROUP}.instance_types": ["g7.2xlarge"]})
    reported.only("spot-price-unseen", "warning")
    on_demand = judge({"cloud.0.node_groups.0.instance_types": ["g7.2xlarge"]})
    assert not on_demand.of("spot-price-unseen")
    never = judge({f"{GROUP}.instance_types": ["p6e-gb200.36xlarge"]})
    assert never.of("spot-unsupported") and not never.of("spot-price-unseen")
    elsewhere = judge({f"{GROUP}.instance_types": ["p5e.48xlarge"]})
    assert elsewhere.rules and not elsewhere.of("spot-price-unseen")


def test_other_type_fallback_with_one_type_is_a_warning(judge: Judge) -> None:
    reported = judge({f"{GROUP}.instance_types": ["p4d.24xlarge"], SHORTAGE: ["other-type"]})
    reported.only("spot-fallback", "warning")
    assert judge({SHORTAGE: ["other-type"]}).rules == set()


def test_fallback_after_wait_is_refused(judge: Judge) -> None:
    finding = judge({SHORTAGE: ["wait", "on-demand"]}).only("spot-fallback")
    assert finding.field == "cloud[0].node_groups[3].capacity.spot.on_shortage[1]"


def test_duplicate_fallback_is_refused(judge: Judge) -> None:
    judge({SHORTAGE: ["other-zone", "other-zone"]}).only("spot-fallback")


def test_all_fallbacks_in_a_useful_order_pass(judge: Judge) -> None:
    assert judge({SHORTAGE: ["other-zone", "other-type", "on-demand", "wait"]}).rules == set()


@pytest.mark.parametrize(
    ("rule", "usage", "group"),
    [
        ("on-demand-unsupported", "on-demand", 0),
        ("odcr-type", "on-demand", 2),
        ("spot-unsupported", "spot", 3),
    ],
)
def test_type_not_sold_by_the_purchase_option_is_refused(
    judge: Judge, catalog: Catalog, rule: str, usage: str, group: int
) -> None:
    judge()
    loaded = load_fleet(str(judge.folder / "fleet.yaml"), root=judge.folder)
    sold = frozenset(get_args(UsageClass)) - {usage}
    scarce = {
        name: item.model_copy(update={"usage_classes": sold}) for name, item in catalog.instances.items()
    }
    other = replace(catalog, instances=scarce)
    check = next(check for check in ALL_CHECKS if check.rule == rule)
    findings = list(check.run(Fleet(loaded.spec, other, loaded.source, NOW)))
    assert findings
    assert {finding.path[:4] for finding in findings} == {("cloud", 0, "node_groups", group)}
    assert {finding.severity for finding in findings} == {"error"}


SLURM = {"cloud.0.scheduler": "slurm", "cloud.0.kubernetes": None}
PRICE = {**SLURM, f"{GROUP}.capacity": {"spot": {"min": 0, "max": 4, "max_price": "30 USD/h"}}}


def test_maximum_price_in_a_slurm_site_passes(judge: Judge) -> None:
    assert judge(PRICE).rules == {"slurm-cloud-unconnected"}


def test_maximum_price_of_an_eks_node_group_is_refused(judge: Judge) -> None:
    finding = judge({f"{GROUP}.capacity.spot.max_price": "30 USD/h"}).only("spot-max-price")
    assert finding.field == "cloud[0].node_groups[3].capacity.spot.max_price"


def test_maximum_price_below_all_known_prices_is_a_warning(judge: Judge) -> None:
    reported = judge({**PRICE, f"{GROUP}.capacity.spot.max_price": "0.01 USD/h"})
    (finding,) = reported.of("spot-max-price")
    assert finding.severity == "warning"
    lowest = finding.remedy.split("'")[1]
    assert judge({**PRICE, f"{GROUP}.capacity.spot.max_price": lowest}).of("spot-max-price") == []


def test_maximum_price_of_a_type_without_a_known_price_is_not_judged(judge: Judge) -> None:
    assert judge({**PRICE, f"{GROUP}.instance_types": ["g7.2xlarge"]}).of("spot-max-price") == []
