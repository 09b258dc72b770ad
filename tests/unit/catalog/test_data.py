"""The shipped data: invariants over every entry, and the figures that fleets are priced with."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from gpufleet.catalog import Catalog, SpotPrices, System, load_catalog
from gpufleet.catalog.aws_shapes import instance_from_aws
from gpufleet.catalog.listing import PriceRow, all_prices
from gpufleet.catalog.spot import is_zone_id

CATALOG = load_catalog()
INSTANCES = sorted(CATALOG.instances)
SYSTEM_TYPES = {"m7i.large", "m7i.xlarge", "m7i.2xlarge", "m6i.xlarge", "c7i.2xlarge", "t3.medium"}


@pytest.fixture
def catalog() -> Catalog:
    return load_catalog()


def test_catalog_has_57_accelerated_types_and_the_system_types(catalog: Catalog) -> None:
    accelerated = {name for name, item in catalog.instances.items() if name not in SYSTEM_TYPES}
    assert len(accelerated) == 57
    assert catalog.instances.keys() - accelerated == SYSTEM_TYPES


@pytest.mark.parametrize("name", INSTANCES)
def test_network_cards_are_numbered_without_gaps(name: str) -> None:
    item = CATALOG.instances[name]
    assert [card.index for card in item.cards] == list(range(len(item.cards)))
    assert "interface" in item.cards[0].supports, "card 0 must take the primary ENA interface"
    assert sum(card.max_interfaces for card in item.cards) == item.max_enis


@pytest.mark.parametrize("name", INSTANCES)
def test_number_of_efa_cards_matches_the_efa_interfaces_of_the_type(name: str) -> None:
    item = CATALOG.instances[name]
    assert sum("efa-only" in card.supports for card in item.cards) == item.max_efa_interfaces
    assert item.efa == (item.max_efa_interfaces > 0)


@pytest.mark.parametrize("name", INSTANCES)
def test_hardware_matches_the_ec2_description(name: str, dump: dict[str, Any]) -> None:
    item = CATALOG.instances[name]
    read = instance_from_aws(dump[name], source=item.hardware_source)
    not_told_by_ec2 = {
        "regions", "on_demand", "spot", "capacity_block", "gpudirect_rdma", "unverified", "notes"
    }  # fmt: skip
    ours, theirs = (fact.model_dump(exclude=not_told_by_ec2) for fact in (item, read))
    if name.startswith("trn2"):
        assert ours.pop("gpu_memory_gib") is None
        theirs.pop("gpu_memory_gib")
    assert ours == theirs


def test_implausible_memory_is_skipped_and_named(catalog: Catalog) -> None:
    for name in ("trn2.3xlarge", "trn2.48xlarge"):
        assert catalog.instance(name).gpu_memory_gib is None
        assert "gpu_memory_gib" in catalog.instance(name).unverified


def test_unread_accelerator_does_not_count_as_none(catalog: Catalog) -> None:
    assert catalog.instance("trn2u.48xlarge").gpu is None
    assert "gpu" in catalog.instance("trn2u.48xlarge").unverified
    assert "gpu" not in catalog.instance("m7i.xlarge").unverified


def test_fraction_of_a_gpu_is_not_a_whole_gpu(catalog: Catalog) -> None:
    for name in ("g6f.large", "g6f.xlarge", "g6f.2xlarge", "g6f.4xlarge", "gr6f.4xlarge"):
        assert catalog.instance(name).gpu_count == 0
        assert 0 < catalog.instance(name).gpu_partition < 1


@pytest.mark.parametrize("row", all_prices(CATALOG), ids=lambda row: f"{row.what}-{row.kind}-{row.region}")
def test_price_is_positive_with_a_source_or_marked_unknown(row: PriceRow) -> None:
    price = row.price
    amounts = (
        [price.low, price.median, price.high, *price.by_zone_id.values()]
        if isinstance(price, SpotPrices)
        else [price.amount]
    )
    for amount in amounts:
        assert amount is None or amount > 0, "an unknown price is never 0"
    if amounts == [None]:
        assert not isinstance(price, SpotPrices)
        assert not price.verified
        assert price.note
    else:
        assert price.source
        assert price.date is not None or "undated" in price.note or "date" in price.note


@pytest.mark.parametrize("name", INSTANCES)
def test_spot_prices_are_sorted_and_have_zones(name: str) -> None:
    for region, spot in CATALOG.instances[name].spot.items():
        assert spot.low <= spot.median <= spot.high
        assert all(is_zone_id(zone) for zone in spot.by_zone_id)
        assert set(spot.by_zone_id) <= set(CATALOG.regions[region].zone_ids)


@pytest.mark.parametrize("name", INSTANCES)
def test_region_with_a_price_is_a_region_of_the_type(name: str) -> None:
    item = CATALOG.instances[name]
    priced = {region for region, price in item.on_demand.items() if price.known}
    assert priced | set(item.spot) | (set(item.capacity_block) - {"*"}) <= item.regions


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
    assert price.date == dt.date(2026, 7, 20)
    assert "karpenter" in price.source


def test_p5e_is_sold_in_capacity_blocks_without_an_on_demand_price(catalog: Catalog) -> None:
    assert "us-east-1" not in catalog.instance("p5e.48xlarge").regions
    for region in ("us-east-1", "us-west-2"):
        assert catalog.on_demand("p5e.48xlarge", region).amount is None
    assert "no on-demand price" in catalog.on_demand("p5e.48xlarge", "us-west-2").note


def test_spot_of_p5_skips_zones_at_the_on_demand_price(catalog: Catalog) -> None:
    spot = catalog.spot("p5.48xlarge", "us-east-1")
    assert spot is not None
    assert spot.by_zone_id["use1-az1"] == spot.by_zone_id["use1-az4"] == Decimal("55.04") == spot.high
    # (19.2531 + 21.1543) / 2: the middle of the four zones with capacity
    assert spot.median == Decimal("20.2037")
    assert "use1-atl2-az1" not in spot.by_zone_id, "a local zone"


def test_spot_of_p5_in_us_west_2_is_the_newer_snapshot(catalog: Catalog) -> None:
    spot = catalog.spot("p5.48xlarge", "us-west-2")
    assert spot is not None
    assert spot.median == Decimal("12.9756")
    assert "00148f2a" in spot.source


def test_p5_4xlarge_has_no_spot_price_instead_of_0(catalog: Catalog) -> None:
    assert catalog.spot("p5.4xlarge", "us-east-1") is None
    assert catalog.spot("p5.4xlarge", "us-west-2") is None


def test_capacity_block_prices_have_a_confidence(catalog: Catalog) -> None:
    p5 = catalog.capacity_block("p5.48xlarge", "us-east-1")
    assert (p5.amount, p5.date, p5.verified) == (Decimal("39.33"), dt.date(2025, 1, 1), True)
    p5en = catalog.capacity_block("p5en.48xlarge", "us-west-2")
    assert (p5en.amount, p5en.date, p5en.verified) == (Decimal("41.61"), None, False)
    assert catalog.capacity_block("p5e.48xlarge", "us-east-2").amount == Decimal("43.26")
    assert catalog.capacity_block("p5e.48xlarge", "us-west-2").amount == Decimal("39.8")
    assert catalog.capacity_block("p6-b200.48xlarge", "us-east-1").amount is None


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
        ("dgx-h200", "H200", "10.2", None),
        ("dgx-b200", "B200", "14.3", "515000"),
        ("dgx-b300", "B300", None, None),
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


def test_lustre_prices_are_known_for_two_tiers_only(catalog: Catalog) -> None:
    known = {
        (tier.deployment, tier.throughput): catalog.lustre_price(tier, "us-east-1").amount
        for tier in catalog.lustre_tiers
        if catalog.lustre_price(tier, "us-east-1").known
    }
    assert known == {("PERSISTENT_2", 125): Decimal("0.145"), ("SCRATCH_2", None): Decimal("0.14")}


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
    assert catalog.service_price("nat-gateway-hour", "eu-west-1").amount is None
    assert catalog.service_price("fsx-backup", "us-east-1").amount is None
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
