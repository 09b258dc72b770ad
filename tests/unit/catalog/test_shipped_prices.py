"""The shipped prices: invariants over every entry, and those that fleets are priced with."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from decimal import Decimal

import pytest

from gpufleet.catalog import DATA, Catalog, Price, SpotPrices, load_catalog
from gpufleet.catalog.listing import PriceRow, all_prices
from gpufleet.catalog.price_tables import CAPACITY_BLOCKS, EC2, SERVICES, read_table
from gpufleet.catalog.spot import is_zone_id
from gpufleet.pricing.estimates import SPOT_FLOOR, estimate
from gpufleet.pricing.rates import Prices

CATALOG = load_catalog()
ALL_PRICES: dict[str, list[PriceRow]] = {}
for _row in all_prices(CATALOG):
    ALL_PRICES.setdefault(_row.what, []).append(_row)


@pytest.fixture
def catalog() -> Catalog:
    return load_catalog()


@pytest.mark.parametrize("what", sorted(ALL_PRICES))
def test_prices_are_positive_with_a_source_or_marked_unknown(what: str) -> None:
    for row in ALL_PRICES[what]:
        price = row.price
        if isinstance(price, SpotPrices):
            assert 0 < price.low <= price.median <= price.high
        elif price.amount is None:
            assert not price.verified and price.note
            continue
        else:
            assert 0 < price.amount <= (price.high or price.amount), "an unknown price is never 0"
        assert price.source
        assert price.date is not None or "day is not known" in price.note or "undated" in price.note, row


def test_price_tables_are_sorted_and_use_every_source() -> None:
    used = set()
    for file, key in ((EC2, "type"), (CAPACITY_BLOCKS, "type"), (SERVICES, "key")):
        rows = list(read_table(DATA / file))
        places = [(row[key], row["region"]) for row in rows]
        assert len(set(places)) == len(places)
        assert {region for _, region in places} <= {*CATALOG.regions, "*"}
        used |= {row["source"] for row in rows} | {row.get("spot_source", "") for row in rows}
        if key == "type":
            assert places == sorted(places)
            assert {name for name, _ in places} <= set(CATALOG.instances)
    assert used - {""} == set(json.loads((DATA / "sources.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("kind", ["on_demand", "capacity_block"])
def test_every_price_of_a_type_lies_in_the_estimate_of_the_other_regions(kind: str) -> None:
    tried = 0
    for item in CATALOG.instances.values():
        prices = getattr(item, kind)
        tried += _lies_in_estimate_of_others(prices, alike=True)
    assert tried > 50


def test_every_price_of_a_service_lies_in_the_estimate_of_the_other_regions() -> None:
    # Data transfer to another region differs sevenfold, and is not estimated: it is charged by use.
    services = [each for each in CATALOG.services.values() if not each.key.startswith("data-transfer")]
    tried = sum(_lies_in_estimate_of_others(each.prices, alike=False) for each in services)
    assert tried + sum(_lies_in_estimate_of_others(t.prices, alike=False) for t in CATALOG.lustre_tiers) > 50


def _lies_in_estimate_of_others(prices: Mapping[str, Price], *, alike: bool) -> int:
    for region, price in prices.items():
        others = {where: each for where, each in prices.items() if where != region}
        found = estimate(others, alike=alike)
        assert found is None or price.amount is None or price.amount <= found.high, (region, price, found)
    return len(prices)


def test_no_spot_price_is_below_the_floor_of_an_estimate() -> None:
    ratios = [
        spot.low / price.amount
        for item in CATALOG.instances.values()
        for region, spot in item.spot.items()
        if (price := item.on_demand.get(region)) is not None and price.amount
    ]
    assert len(ratios) > 500
    assert min(ratios) >= SPOT_FLOOR


@pytest.mark.parametrize("name", sorted(CATALOG.instances))
def test_spot_prices_are_sorted_and_have_zones(name: str) -> None:
    for region, spot in CATALOG.instances[name].spot.items():
        assert spot.low <= spot.median <= spot.high
        assert all(is_zone_id(zone) for zone in spot.by_zone_id)
        assert set(spot.by_zone_id) <= set(CATALOG.regions[region].zone_ids)


def test_region_with_a_price_is_a_region_of_the_type() -> None:
    withdrawn = set()
    for item in CATALOG.instances.values():
        priced = {*item.on_demand, *item.spot, *item.capacity_block}
        withdrawn |= {(item.name, region) for region in priced - item.regions}
    # AWS still lists their price, and no longer offers them.
    assert withdrawn == {
        ("p4d.24xlarge", "ap-southeast-1"),
        ("t3.large", "me-central-1"),
        ("t3.medium", "me-central-1"),
    }


def test_every_offered_gpu_type_has_a_price_or_an_estimate() -> None:
    for item in CATALOG.instances.values():
        for region in item.regions:
            prices = Prices(CATALOG, region)
            for kind in ("on-demand", "capacity-block"):
                known = item.on_demand if kind == "on-demand" else item.capacity_block
                if kind in item.usage_classes and known:
                    rate = prices.node(item.name, kind)
                    assert rate.estimated == (region not in known)


@pytest.mark.parametrize(
    ("name", "usd"),
    [
        ("p4d.24xlarge", "21.957642"),
        ("p4de.24xlarge", "27.44705"),
        ("p5.4xlarge", "6.88"),
        ("p5.48xlarge", "55.04"),
        ("p5en.48xlarge", "63.296"),
        ("p6-b200.48xlarge", "113.9328"),
        ("p6-b300.48xlarge", "142.416"),
        ("g6e.48xlarge", "30.13118"),
        ("g5.48xlarge", "16.288"),
        ("g4dn.xlarge", "0.526"),
        ("m7i.xlarge", "0.2016"),
        ("t3.medium", "0.0416"),
    ],
)
def test_on_demand_price_in_us_east_1_is_the_published_one(catalog: Catalog, name: str, usd: str) -> None:
    price = catalog.on_demand(name, "us-east-1")
    assert price.amount == Decimal(usd)
    assert price.date is not None and price.date >= dt.date(2026, 7, 20)


@pytest.mark.parametrize(
    ("name", "region", "usd"),
    [
        ("p5.48xlarge", "ap-south-1", "66.048"),
        ("p5en.48xlarge", "eu-north-1", "67.72672"),
        ("p4de.24xlarge", "eu-central-1", "34.29122"),
        ("g6.xlarge", "ca-central-1", "0.8936"),
        ("m7i.4xlarge", "ap-northeast-1", "1.0416"),
    ],
)
def test_on_demand_price_of_a_region_is_that_of_two_sources(
    catalog: Catalog, name: str, region: str, usd: str
) -> None:
    assert catalog.on_demand(name, region).amount == Decimal(usd)


@pytest.mark.parametrize(
    ("key", "region", "usd"),
    [
        ("ebs-gp3", "ap-southeast-1", "0.096"),
        ("ebs-gp3", "us-west-2", "0.08"),
        ("ebs-gp3-iops", "ap-northeast-1", "0.006"),
        ("ebs-gp3-iops", "us-west-2", "0.005"),
        ("ebs-gp3-throughput", "ap-northeast-1", "0.048"),
        ("ebs-gp3-throughput", "eu-west-1", "0.044"),
        ("ebs-io2", "ap-northeast-1", "0.142"),
        ("s3-standard-ia", "ap-southeast-1", "0.0138"),
        ("vpc-endpoint-interface-hour", "ap-southeast-1", "0.013"),
        ("vpc-endpoint-interface-hour", "us-west-2", "0.01"),
    ],
)
def test_price_of_a_service_is_that_of_the_price_list(
    catalog: Catalog, key: str, region: str, usd: str
) -> None:
    rate = Prices(catalog, region).service(key)
    assert (rate.low, rate.expected, rate.high) == (Decimal(usd),) * 3 and not rate.estimated
    assert rate.date is not None and rate.date >= "2026-08-12"


def test_p5e_is_sold_in_capacity_blocks_without_an_on_demand_price(catalog: Catalog) -> None:
    assert "us-east-1" not in catalog.instance("p5e.48xlarge").regions
    for region in ("us-east-1", "us-west-2"):
        assert catalog.on_demand("p5e.48xlarge", region).amount is None
    assert "no on-demand price" in catalog.on_demand("p5e.48xlarge", "us-west-2").note


def test_spot_has_the_zones_without_capacity_only_in_its_upper_end(catalog: Catalog) -> None:
    spot = catalog.spot("p5.48xlarge", "us-east-1")
    assert spot is not None
    assert (spot.low, spot.median, spot.high) == tuple(map(Decimal, ("16.9508", "20.2037", "55.04")))


def test_type_without_a_spot_price_has_none_instead_of_0(catalog: Catalog) -> None:
    assert catalog.spot("g7.2xlarge", "us-east-1") is None


def test_capacity_block_price_is_that_of_its_region_alone(catalog: Catalog) -> None:
    p5 = catalog.capacity_block("p5.48xlarge", "us-east-1")
    assert (p5.amount, p5.date, p5.verified) == (Decimal("47.76"), dt.date(2026, 10, 7), True)
    assert catalog.capacity_block("p5en.48xlarge", "us-west-2").amount == Decimal("63.16")
    assert catalog.capacity_block("p5e.48xlarge", "us-east-2").amount == Decimal("54.928")
    assert catalog.capacity_block("p6-b200.48xlarge", "us-east-1").amount == Decimal("113.664")
    assert catalog.capacity_block("p6-b200.48xlarge", "eu-north-1").amount is None
    assert not any("*" in item.capacity_block for item in catalog.instances.values())


def test_lustre_prices_are_those_that_were_read(catalog: Catalog) -> None:
    def known(region: str) -> dict[str, str]:
        prices = {tier.title: catalog.lustre_price(tier, region) for tier in catalog.lustre_tiers}
        return {
            title: f"{price.amount}{'' if price.verified else '*'}"
            for title, price in prices.items()
            if price.known
        }

    assert known("us-east-1") == {
        "PERSISTENT_2-125": "0.145",
        "PERSISTENT_2-500": "0.34*",
        "PERSISTENT_2-1000": "0.6*",
        "SCRATCH_2": "0.14",
    }
    assert known("us-west-2") == {
        "PERSISTENT_1-50": "0.14",
        "PERSISTENT_1-100": "0.19",
        "PERSISTENT_1-200": "0.29",
        "PERSISTENT_2-125": "0.145",
        "PERSISTENT_2-250": "0.21",
        "SCRATCH_2": "0.14",
    }
    assert known("ap-northeast-2") == {"PERSISTENT_2-1000": "0.673"}


@pytest.mark.parametrize(
    ("key", "usd", "unit"),
    [
        ("nat-gateway-hour", "0.045", "hour"),
        ("nat-gateway-gb", "0.045", "GB"),
        ("eks-control-plane", "0.1", "hour"),
        ("eks-control-plane-extended", "0.6", "hour"),
        ("ebs-gp3", "0.08", "GB-month"),
        ("ebs-gp3-iops", "0.005", "IOPS-month"),
        ("ebs-gp3-throughput", "0.04", "MBps-month"),
        ("s3-standard", "0.023", "GB-month"),
        ("data-transfer-zone", "0.01", "GB"),
        ("data-transfer-out", "0.09", "GB"),
    ],
)
def test_service_prices_match_their_sources(catalog: Catalog, key: str, usd: str, unit: str) -> None:
    price = catalog.service_price(key, "us-east-1")
    assert (price.amount, price.unit) == (Decimal(usd), unit)
    assert catalog.services[key].unit == unit


def test_service_price_of_one_region_is_not_used_for_another(catalog: Catalog) -> None:
    assert catalog.service_price("nat-gateway-hour", "eu-west-1").amount == Decimal("0.048")
    assert catalog.service_price("nat-gateway-hour", "eu-south-1").amount is None
    assert catalog.service_price("fsx-backup", "eu-west-1").amount is None
    assert catalog.service_price("fsx-backup", "us-west-1").amount == Decimal("0.055")
