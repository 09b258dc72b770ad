"""Lookups: known, unknown, and nearest names."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from gpufleet.catalog import Catalog, Price, age_text, is_stale, load_catalog, price_age
from gpufleet.catalog.lustre import is_size, size_steps
from gpufleet.errors import InputError


@pytest.fixture
def catalog() -> Catalog:
    return load_catalog()


def test_catalog_is_loaded_once() -> None:
    assert load_catalog() is load_catalog()


def test_unknown_instance_type_suggests_the_nearest_name(catalog: Catalog) -> None:
    with pytest.raises(InputError, match=r"'p5\.48xlrge'; did you mean 'p5\.48xlarge'\?"):
        catalog.instance("p5.48xlrge")
    assert catalog.suggest_instance("P4D.24XLARGE") == "p4d.24xlarge"
    assert catalog.suggest_instance("nothing like it") is None


def test_unknown_system_suggests_the_nearest_name(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="did you mean 'dgx-h100'"):
        catalog.system("dgx-h10")
    assert catalog.suggest_system("DGX-B20") == "dgx-b200"


def test_unknown_channel_is_bad_input(catalog: Catalog) -> None:
    with pytest.raises(InputError, match=r"2025\.11"):
        catalog.lock("2025.11")
    assert catalog.lock("2026.11").driver == "580.159.03"


def test_types_are_found_by_all_filters_together(catalog: Catalog) -> None:
    found = catalog.find_instances(gpu="h100", min_gpus=8, efa=True, region="us-east-1", usage="spot")
    assert [item.name for item in found] == ["p5.48xlarge"]
    assert catalog.find_instances(gpu="H100", min_gpus=9) == ()
    assert "g6e.xlarge" not in {item.name for item in catalog.find_instances(efa=True)}
    assert {item.gpu for item in catalog.find_instances(gpu="A100")} == {"A100"}
    assert "p5e.48xlarge" not in {item.name for item in catalog.find_instances(region="us-east-1")}


def test_unpublished_price_is_unknown_and_marked(catalog: Catalog) -> None:
    price = catalog.on_demand("p5.4xlarge", "eu-north-1")
    assert price.amount is None
    assert not price.known
    assert not price.verified
    assert "p5.4xlarge in eu-north-1" in price.note


def test_price_of_an_unknown_type_is_an_error(catalog: Catalog) -> None:
    for lookup in (catalog.on_demand, catalog.spot, catalog.capacity_block):
        with pytest.raises(InputError, match="unknown instance type"):
            lookup("p9.48xlarge", "us-east-1")


def test_invalid_lustre_throughput_lists_the_valid_ones(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="throughput 300") as caught:
        catalog.lustre_tier("PERSISTENT_2", 300)
    assert "125, 250, 500, 1000" in caught.value.remedy
    with pytest.raises(InputError, match="throughput 200"):
        catalog.lustre_tier("SCRATCH_2", 200)
    with pytest.raises(InputError, match="did you mean 'PERSISTENT_2'"):
        catalog.lustre_tier("PERSISTENT_3", 125)


@pytest.mark.parametrize(
    ("throughput", "gib", "efa", "allowed"),
    [
        (125, 1200, False, True),
        (125, 2400, False, True),
        (125, 4800, False, True),
        (125, 3600, False, False),
        (125, 600, False, False),
        (125, 0, False, False),
        (125, 2400, True, False),
        (125, 38_400, True, True),
        (250, 19_200, True, True),
        (500, 9_600, True, True),
        (1000, 4_800, True, True),
        (1000, 1_200, True, False),
        (1000, 0, True, False),
    ],
)
def test_capacity_is_valid_only_in_its_steps(
    catalog: Catalog, throughput: int, gib: int, efa: bool, allowed: bool
) -> None:
    steps = size_steps(catalog, "PERSISTENT_2", throughput, efa=efa)
    assert steps is not None
    assert is_size(gib, steps) is allowed


def test_scratch_supports_efa_at_no_capacity(catalog: Catalog) -> None:
    assert size_steps(catalog, "SCRATCH_2", None, efa=False) is not None
    assert size_steps(catalog, "SCRATCH_2", None, efa=True) is None


def test_price_of_a_terabyte_of_scratch_matches_the_published_one(catalog: Catalog) -> None:
    price = catalog.lustre_price(catalog.lustre_tier("SCRATCH_2", None), "us-east-1").amount
    assert price is not None
    assert price * 1200 == Decimal("168.00")


def test_unknown_region_has_no_zones_and_a_nearest_name(catalog: Catalog) -> None:
    assert catalog.zones("us-esat-1") == ()
    assert catalog.suggest_region("us-esat-1") == "us-east-1"
    assert catalog.zone_id("us-east-1z") is None
    assert catalog.zone_id("us-east-1a") == "use1-az6"


def test_unknown_service_is_an_error(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="did you mean 'nat-gateway-gb'"):
        catalog.service_price("nat-gateway-g", "us-east-1")


def test_age_of_a_price_counts_from_the_given_date() -> None:
    price = Price(amount=Decimal(1), unit="hour", date=dt.date(2026, 1, 1))
    undated = Price(amount=Decimal(1), unit="hour")
    assert price_age(price, dt.date(2026, 1, 31)) == 30
    assert price_age(undated, dt.date(2026, 1, 31)) is None
    assert age_text(price, dt.date(2026, 1, 1)) == "today"
    assert age_text(price, dt.date(2026, 1, 31)) == "30 d"
    assert age_text(undated, dt.date(2026, 1, 31)) == "undated"


def test_price_is_stale_after_180_days_and_never_without_a_date() -> None:
    price = Price(amount=Decimal(1), unit="hour", date=dt.date(2026, 1, 1))
    assert not is_stale(price, price.date + dt.timedelta(days=180) if price.date else dt.date.max)
    assert is_stale(price, dt.date(2026, 1, 1) + dt.timedelta(days=181))
    assert not is_stale(Price(amount=Decimal(1), unit="hour"), dt.date(2099, 1, 1))
