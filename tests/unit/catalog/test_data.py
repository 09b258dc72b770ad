"""The shipped data without its prices: invariants over every entry, and figures that others published."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.catalog import DATA, Catalog, System, efa_layout, load_catalog
from gpufleet.catalog.accelerator import Accelerator
from gpufleet.catalog.aws_shapes import instance_from_aws
from gpufleet.catalog.shipped import shipped_instances
from gpufleet.catalog.store import INSTANCES as INSTANCES_FILE
from gpufleet.catalog.store import instances_text

CATALOG = load_catalog()
INSTANCES = sorted(CATALOG.instances)
SYSTEM_FAMILIES = {"c7i", "m6i", "m7g", "m7i", "m8g", "r7i", "t3"}


@pytest.fixture
def catalog() -> Catalog:
    return load_catalog()


def test_catalog_has_80_accelerated_types_and_the_system_types(catalog: Catalog) -> None:
    accelerated = {name for name in catalog.instances if name.partition(".")[0] not in SYSTEM_FAMILIES}
    assert len(accelerated) == 80
    families = {name.partition(".")[0] for name in accelerated}
    assert {
        "g5g",
        "g6f",
        "g7",
        "g7e",
        "gr6",
        "inf1",
        "inf2",
        "p5",
        "p5e",
        "p5en",
        "p6-b200",
        "p6-b300",
        "p6e-gb200",
        "trn1",
        "trn1n",
        "trn2",
        "trn2u",
    } < families
    plain = [item for name, item in catalog.instances.items() if name not in accelerated]
    assert {item.accelerator for item in plain} == {None}
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
    if "accelerator_memory" in item.unverified:
        own, read_one = ours.pop("accelerator"), theirs.pop("accelerator")
        assert own["memory_gib"] == 96.0
        # The copy of DescribeInstanceTypes has no devices of an UltraServer's instance.
        assert read_one is None or read_one == own | {"memory_gib": 512.0}
        assert (read_one is None) == (name == "trn2u.48xlarge")
    if "card_peak_gbps" in item.unverified:
        total = sum(card.peak_gbps for card in item.cards)
        assert f"{total:g} Gigabit" == item.network_performance
        ours.pop("cards"), theirs.pop("cards")
    assert ours == theirs


def test_unread_accelerator_does_not_count_as_none(catalog: Catalog) -> None:
    unread = catalog.instance("trn2u.48xlarge").model_copy(
        update={"accelerator": None, "unverified": ("accelerator",)}
    )
    assert unread.accelerator_unknown
    assert not catalog.instance("m7i.xlarge").accelerator_unknown
    assert not any(item.accelerator_unknown for item in catalog.instances.values())


@pytest.mark.parametrize(
    ("name", "device", "count", "gib", "cores", "efa"),
    [
        ("trn1.2xlarge", "Trainium", 1, 32, 2, 0),
        ("trn1.32xlarge", "Trainium", 16, 32, 2, 8),
        ("trn1n.32xlarge", "Trainium", 16, 32, 2, 16),
        ("trn2.3xlarge", "Trainium2", 1, 96, 8, 1),
        ("trn2.48xlarge", "Trainium2", 16, 96, 8, 16),
        ("trn2u.48xlarge", "Trainium2", 16, 96, 8, 16),
        ("inf1.24xlarge", "Inferentia", 16, 8, 4, 1),
        ("inf2.48xlarge", "Inferentia2", 12, 32, 2, 0),
    ],
)
def test_neuron_devices_and_their_network_are_those_of_aws_pages(
    catalog: Catalog, name: str, device: str, count: int, gib: int, cores: int, efa: int
) -> None:
    """Neuron documentation: architecture of Trn1, Trn2 and Inf2; how to prepare trn1.32xlarge (EFA)."""
    item = catalog.instance(name)
    assert item.accelerator == Accelerator(
        kind="neuron", name=device, count=count, memory_gib=gib, cores=cores
    )
    assert (item.neuron, item.gpu, item.gpu_count, item.gpu_memory_gib) == (True, None, 0, None)
    assert item.max_efa_interfaces == efa
    assert not efa or len(efa_layout(item)) == efa + 1


def test_gpus_and_neuron_devices_are_told_apart(catalog: Catalog) -> None:
    neuron = {"Inferentia", "Inferentia2", "Trainium", "Trainium2"}
    assert set(catalog.accelerators) - set(catalog.gpus) == neuron
    kinds = {
        item.accelerator.name: item.accelerator.kind
        for item in catalog.instances.values()
        if item.accelerator
    }
    assert {name for name, kind in kinds.items() if kind == "neuron"} == neuron


def test_fraction_of_a_gpu_is_not_a_whole_gpu(catalog: Catalog) -> None:
    for name in ("g6f.large", "g6f.xlarge", "g6f.2xlarge", "g6f.4xlarge", "gr6f.4xlarge"):
        assert catalog.instance(name).gpu_count == 0
        assert 0 < catalog.instance(name).gpu_partition < 1


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


def test_lustre_clients_have_no_more_efa_interfaces_than_their_type(catalog: Catalog) -> None:
    clients = catalog.lustre_efa_clients
    assert {
        name
        for name, each in catalog.instances.items()
        if clients.interfaces_of(each) > each.max_efa_interfaces
    } == set()
    families = {name.partition(".")[0] for name, each in catalog.instances.items() if each.efa}
    assert clients.tcp_only <= families


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
    reported = [source for source in system.sources if source.startswith("rails: ")]
    choices = (
        [system.rails, *system.rails_of_variants.values()]
        if system.rails
        else system.rails_of_variants.values()
    )
    assert bool(choices) == bool(reported) != ("rails" in system.unverified)
    for rails in choices:
        assert len(set(rails)) == len(rails) == system.compute_nics
        assert not set(rails) & set(system.bridges)
    assert bool(system.bridges) == any(source.startswith("bridges: ") for source in system.sources)
