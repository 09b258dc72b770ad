"""Spot against on-demand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet.catalog import load_catalog
from gpufleet.economics.checkpoints import checkpoint_plan
from gpufleet.economics.spot import compare_spot
from gpufleet.errors import InputError

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("region", "spot", "saving"), [("us-west-2", "12.9756", "76.4"), ("us-east-1", "20.2037", "63.3")]
)
def test_saving_of_p5_follows_from_its_prices(region: str, spot: str, saving: str) -> None:
    found = compare_spot(CATALOG, "p5.48xlarge", region)
    assert (found.on_demand, found.spot) == (Decimal("55.04"), Decimal(spot))
    assert found.saving_fraction is not None
    assert f"{found.saving_fraction * 100:.1f}" == saving


def test_type_without_a_spot_price_has_no_saving() -> None:
    found = compare_spot(CATALOG, "g7.2xlarge", "us-east-1")
    assert found.spot is None
    assert found.saving_fraction is None
    assert "may not be offered as spot" in found.reason


def test_interruptions_reduce_the_saving_and_can_make_it_negative() -> None:
    alone = compare_spot(CATALOG, "p5.4xlarge", "us-east-1")
    rare = compare_spot(CATALOG, "p5.4xlarge", "us-east-1", checkpoints=checkpoint_plan(60, 86_400))
    often = compare_spot(
        CATALOG, "p5.4xlarge", "us-east-1", checkpoints=checkpoint_plan(300, 3_600, restart_s=600)
    )
    assert alone.saving_fraction is not None
    assert rare.saving_fraction is not None
    assert often.saving_fraction is not None
    assert alone.saving_fraction > rare.saving_fraction > 0 > often.saving_fraction


def test_spot_as_dear_as_on_demand_saves_nothing() -> None:
    item = CATALOG.instances["p5.48xlarge"]
    found = compare_spot(CATALOG, "p5.48xlarge", "us-east-1")
    assert found.spot_high == item.on_demand["us-east-1"].amount, "two zones cost as much as on-demand"
    assert found.spot_high is not None
    assert found.on_demand is not None
    assert 1 - float(found.spot_high) / float(found.on_demand) == 0


@pytest.mark.parametrize(
    ("name", "region", "says"),
    [
        ("p5.84xlarge", "us-east-1", "did you mean 'p5.48xlarge'"),
        ("p5.48xlarge", "mars-1", "unknown region 'mars-1'"),
        ("p6-b300.48xlarge", "eu-west-1", "not offered in eu-west-1"),
    ],
)
def test_unknown_names_and_regions_are_refused(name: str, region: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        compare_spot(CATALOG, name, region)
