"""The shipped data: invariants over every entry, and the figures that fleets are priced with."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from gpufleet.catalog import DATA, Catalog, Price, SpotPrices, System, load_catalog
from gpufleet.catalog.aws_shapes import instance_from_aws
from gpufleet.catalog.listing import PriceRow, all_prices
from gpufleet.catalog.price_tables import CAPACITY_BLOCKS, EC2, SERVICES, read_table
from gpufleet.catalog.shipped import shipped_instances
from gpufleet.catalog.spot import is_zone_id
from gpufleet.catalog.store import INSTANCES as INSTANCES_FILE
from gpufleet.catalog.store import instances_text
from gpufleet.pricing.estimates import SPOT_FLOOR, estimate
from gpufleet.pricing.rates import Prices

CATALOG = load_catalog()
INSTANCES = sorted(CATALOG.instances)
ALL_PRICES: dict[str, list[PriceRow]] = {}
for _row in all_prices(CATALOG):
    ALL_PRICES.setdefault(_row.what, []).append(_row)
SYSTEM_FAMILIES = {"c7i", "m6i", "m7g", "m7i", "r7i", "t3"}


@pytest.fixture
def catalog() -> Catalog:
    return load_catalog()


def test_catalog_has_76_accelerated_types_and_the_system_types(catalog: Catalog) -> None:
    accelerated = {name for name in catalog.instances if name.partition(".")[0] not in SYSTEM_FAMILIES}
    assert len(accelerated) == 76
    families = {name.partition(".")[0] for name in accelerated}
    assert {
        "g5g",
        "g6f",
        "g7",
        "g7e",
        "gr6",
        "p5",
        "p5e",
        "p5en",
        "p6-b200",
        "p6-b300",
        "p6e-gb200",
    } < families
    assert {item.gpu for name, item in catalog.instances.items() if name not in accelerated} == {None}
    assert {name.partition(".")[0] for name in catalog.instances} - families == SYSTEM_FAMILIES


def test_hardware_is_what_the_script_writes() -> None:
    assert (DATA / INSTANCES_FILE).read_text(encoding="utf-8") == instances_text(shipped_instances()), (
        "run `python -m gpufleet.catalog.shipped`"
    )


@pytest.mark.parametrize("name", INSTANCES)
def test_network_cards_are_numbered_without_gaps(name: str) -> None:
    item = CATALOG.instances[name]
    if "cards" in item.unverified:
        assert item.cards == ()
        return
    assert [card.index for card in item.cards] == list(range(len(item.cards)))
    assert "interface" in item.cards[0].supports, "card 0 must take the primary ENA interface"
    assert sum(card.max_interfaces for card in item.cards) == item.max_enis


@pytest.mark.parametrize("name", INSTANCES)
def test_number_of_efa_cards_matches_the_efa_interfaces_of_the_type(name: str) -> None:
    item = CATALOG.instances[name]
    assert sum("efa-only" in card.supports for card in item.cards) == item.max_efa_interfaces
    assert item.efa == (item.max_efa_interfaces > 0)


@pytest.mark.parametrize("name", sorted(set(INSTANCES) - {"p6e-gb200.36xlarge"}))
def test_hardware_matches_the_ec2_description(name: str, dump: dict[str, Any]) -> None:
    item = CATALOG.instances[name]
    read = instance_from_aws(dump[name], source=item.hardware_source)
    not_told_by_ec2 = {
        "regions", "on_demand", "spot", "capacity_block", "gpudirect_rdma", "unverified", "notes"
    }  # fmt: skip
    ours, theirs = (fact.model_dump(exclude=not_told_by_ec2) for fact in (item, read))
    if "gpu_memory_gib" in item.unverified:
        assert (ours.pop("gpu_memory_gib"), theirs.pop("gpu_memory_gib")) in {(96.0, 512.0), (None, None)}
    if "card_peak_gbps" in item.unverified:
        total = sum(card.peak_gbps for card in item.cards)
        assert f"{total:g} Gigabit" == item.network_performance
        ours.pop("cards"), theirs.pop("cards")
    assert ours == theirs


def test_unread_accelerator_does_not_count_as_none(catalog: Catalog) -> None:
    assert catalog.instance("trn2u.48xlarge").gpu is None
    assert "gpu" in catalog.instance("trn2u.48xlarge").unverified
    assert "gpu" not in catalog.instance("m7i.xlarge").unverified


def test_fraction_of_a_gpu_is_not_a_whole_gpu(catalog: Catalog) -> None:
    for name in ("g6f.large", "g6f.xlarge", "g6f.2xlarge", "g6f.4xlarge", "gr6f.4xlarge"):
        assert catalog.instance(name).gpu_count == 0
        assert 0 < catalog.instance(name).gpu_partition < 1


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


@pytest.mark.parametrize("name", INSTANCES)
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


def test_capacity_block_rules_match_aws(catalog: Catalog) -> None:
    rules = catalog.capacity_block_rules
    assert (rules.max_instances_per_block, rules.max_instances_all_blocks) == (64, 256)
    assert rules.book_ahead_weeks == 8
    assert rules.day_boundary_utc == "11:30"
    assert [days for days in range(0, 200) if rules.allows_days(days)] == [*range(1, 15), *range(21, 183, 7)]


@pytest.mark.parametrize(
    ("name", "gpu", "kw", "usd"),
    [
        ("dgx-a100", "A100", "6.5", None),
        ("dgx-h100", "H100", "10.2", "270000"),
        ("dgx-h200", "H200", "10.2", "549764"),
        ("dgx-b200", "B200", "14.3", "515000"),
        ("dgx-b300", "B300", None, "300000"),
        ("hgx-h100", "H100", None, None),
    ],
)
def test_system_has_its_published_power_and_price(
    catalog: Catalog, name: str, gpu: str, kw: str | None, usd: str | None
) -> None:
    system = catalog.system(name)
    assert (system.gpus, system.gpu) == (8, gpu)
    assert system.power_kw_max == (None if kw is None else Decimal(kw))
    assert (system.power_kw_max is None) == ("power_kw_max" in system.unverified)
    assert system.price.amount == (None if usd is None else Decimal(usd))
    assert not system.price.verified, "no price of a system is a quote"
    assert (system.price.high is not None) == (name in {"dgx-h100", "dgx-b200", "dgx-b300"})
    assert system.sources


def test_rejected_price_of_a_dgx_h100_is_not_used(catalog: Catalog) -> None:
    assert "199000" not in catalog.system("dgx-h100").model_dump_json()
    assert "supercluster" not in catalog.system("dgx-h100").model_dump_json()


def test_efa_capacity_steps_shrink_as_throughput_grows(catalog: Catalog) -> None:
    steps = {
        tier.throughput: tier.efa_multiple_gib
        for tier in catalog.lustre_tiers
        if tier.deployment == "PERSISTENT_2"
    }
    assert steps == {125: 38_400, 250: 19_200, 500: 9_600, 1000: 4_800}
    assert catalog.lustre_tier("SCRATCH_2", None).efa_multiple_gib is None


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


def test_no_hdd_tier_is_offered(catalog: Catalog) -> None:
    assert catalog.lustre_throughputs("PERSISTENT_1") == (50, 100, 200)
    assert catalog.lustre_throughputs("PERSISTENT_2") == (125, 250, 500, 1000)
    assert catalog.lustre_throughputs("SCRATCH_2") == ()


@pytest.mark.parametrize("channel", sorted(CATALOG.locks))
def test_software_lock_is_complete_and_fabric_manager_equals_the_driver(channel: str) -> None:
    lock = CATALOG.locks[channel]
    assert lock.fabric_manager == lock.driver
    assert lock.driver.startswith(f"{lock.driver_branch}.")
    versions = lock.model_dump(exclude={"notes", "unverified", "sources", "channel", "driver_branch"})
    assert all(versions.values()), "a component without a version"
    assert versions.keys() - {"driver"} <= lock.sources.keys(), "a version without a source"
    assert set(lock.unverified) < versions.keys()


def test_channels_are_one_long_term_and_one_production_branch(
    catalog: Catalog,
) -> None:
    assert {name: (lock.driver, lock.driver_support) for name, lock in catalog.locks.items()} == {
        "2026.11": ("580.159.03", "LTS"),
        "2026.08": ("595.91.07", "Production"),
    }


def test_no_channel_uses_a_driver_branch_past_its_end_of_life(catalog: Catalog) -> None:
    for lock in catalog.locks.values():
        assert lock.driver_eol > lock.channel.replace(".", "-")
        assert any("R535" in note and "2026-06" in note for note in lock.notes)


def test_every_gpu_of_a_system_runs_on_every_channel(catalog: Catalog) -> None:
    for lock in catalog.locks.values():
        for system in catalog.systems.values():
            assert lock.gpus_min_driver[system.gpu] <= lock.driver_branch


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


def test_zones_belong_to_their_region(catalog: Catalog) -> None:
    assert len(catalog.regions) == 30
    for region in catalog.regions.values():
        assert len(region.zones) == len(region.zone_ids) >= 2
        for zone in region.zones:
            assert zone.name[:-1] == region.name
            assert zone.zone_id is None or zone.zone_id in region.zone_ids
    assert catalog.zones("us-east-1") == tuple(f"us-east-1{letter}" for letter in "abcdef")
    assert "us-east-1z" not in catalog.zones("us-east-1")


@pytest.mark.parametrize("system", CATALOG.systems.values(), ids=lambda item: item.name)
def test_rails_of_every_system_have_a_source_or_are_marked_as_unread(system: System) -> None:
    said = [source for source in system.sources if source.startswith("rails: ")]
    choices = (
        [system.rails, *system.rails_of_variants.values()]
        if system.rails
        else system.rails_of_variants.values()
    )
    assert bool(choices) == bool(said) != ("rails" in system.unverified)
    for rails in choices:
        assert len(set(rails)) == len(rails) == system.compute_nics
        assert not set(rails) & set(system.bridges)
    assert bool(system.bridges) == any(source.startswith("bridges: ") for source in system.sources)
