"""The response of an account, merged over the shipped data."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from gpufleet.catalog import InstanceType, Price, RegionRead, SpotPrices, load_catalog
from gpufleet.catalog.accelerator import Accelerator
from gpufleet.catalog.overlay import overlay

TODAY = dt.date(2026, 11, 21)
SHIPPED = load_catalog().instances


def asked(*regions: str, spot: bool = True) -> list[RegionRead]:
    return [RegionRead(name=name, date=TODAY, spot=spot) for name in regions]


def price(amount: str) -> Price:
    return Price(amount=Decimal(amount), unit="instance-hour", source="account ********9012", date=TODAY)


def read(name: str, **changes: object) -> InstanceType:
    """The type in an account's response: without fields that EC2 does not return."""
    bare = {"regions": frozenset(), "on_demand": {}, "spot": {}, "capacity_block": {}, "gpudirect_rdma": None}
    return SHIPPED[name].model_copy(update={**bare, "unverified": (), "notes": (), **changes})


def test_price_from_the_account_replaces_the_shipped_one_in_its_region() -> None:
    answer = read("p5.48xlarge", regions=frozenset({"us-east-1"}), on_demand={"us-east-1": price("50")})
    merged = overlay(SHIPPED, [answer], asked("us-east-1"))["p5.48xlarge"]
    assert merged.on_demand["us-east-1"] == price("50")
    assert merged.on_demand["us-west-2"] == SHIPPED["p5.48xlarge"].on_demand["us-west-2"]
    assert merged.regions == SHIPPED["p5.48xlarge"].regions


def test_price_that_the_account_did_not_report_stays() -> None:
    merged = overlay(SHIPPED, [read("p5.48xlarge", regions=frozenset({"us-east-1"}))], asked("us-east-1"))
    assert merged["p5.48xlarge"].on_demand == SHIPPED["p5.48xlarge"].on_demand
    assert merged["p5.48xlarge"].capacity_block == SHIPPED["p5.48xlarge"].capacity_block


def test_type_no_longer_offered_is_removed_from_that_region_only() -> None:
    merged = overlay(SHIPPED, [], asked("us-east-1"))
    assert "us-east-1" not in merged["p5.48xlarge"].regions
    assert merged["p5.48xlarge"].regions == SHIPPED["p5.48xlarge"].regions - {"us-east-1"}
    assert merged.keys() == SHIPPED.keys()


def test_spot_price_gone_from_the_account_is_removed_unless_it_was_not_read() -> None:
    answer = read("p5.48xlarge", regions=frozenset({"us-east-1"}))
    assert "us-east-1" in SHIPPED["p5.48xlarge"].spot
    reported = overlay(SHIPPED, [answer], asked("us-east-1"))["p5.48xlarge"].spot
    assert "us-east-1" not in reported
    assert reported.keys() == SHIPPED["p5.48xlarge"].spot.keys() - {"us-east-1"}
    untold = overlay(SHIPPED, [answer], asked("us-east-1", spot=False))["p5.48xlarge"].spot
    assert untold == SHIPPED["p5.48xlarge"].spot


def test_spot_prices_from_the_account_replace_the_shipped_ones() -> None:
    spot = SpotPrices(
        low=Decimal(1), median=Decimal(2), high=Decimal(3), by_zone_id={"use1-az1": Decimal(2)}, source="a"
    )
    answer = read("p5.48xlarge", regions=frozenset({"us-east-1"}), spot={"us-east-1": spot})
    assert overlay(SHIPPED, [answer], asked("us-east-1"))["p5.48xlarge"].spot["us-east-1"] == spot


def test_fields_that_ec2_does_not_report_come_from_the_shipped_entry() -> None:
    merged = overlay(SHIPPED, [read("p5.48xlarge"), read("p5.4xlarge")], asked("us-east-1"))
    assert merged["p5.48xlarge"].gpudirect_rdma is True
    assert merged["p5.4xlarge"].unverified == SHIPPED["p5.4xlarge"].unverified
    assert merged["p5.4xlarge"].notes == SHIPPED["p5.4xlarge"].notes


def test_figures_that_pages_of_aws_contradict_are_not_read_from_the_account() -> None:
    b200 = read("p6-b200.48xlarge")
    cards = tuple(card.model_copy(update={"peak_gbps": 200.0}) for card in b200.cards)
    trn2 = read("trn2.48xlarge")
    assert trn2.accelerator is not None
    too_much = trn2.model_copy(
        update={"accelerator": trn2.accelerator.model_copy(update={"memory_gib": 512.0})}
    )
    answer = [too_much, b200.model_copy(update={"cards": cards})]
    merged = overlay(SHIPPED, answer, asked("us-east-1"))
    assert merged["trn2.48xlarge"].accelerator == SHIPPED["trn2.48xlarge"].accelerator
    assert {card.peak_gbps for card in merged["p6-b200.48xlarge"].cards} == {400.0}
    fewer = overlay(SHIPPED, [b200.model_copy(update={"cards": cards[:4]})], asked("us-east-1"))
    assert fewer["p6-b200.48xlarge"].cards == cards[:4]


def test_accelerator_that_the_account_reports_is_verified() -> None:
    answer = read("trn2u.48xlarge")
    unread = answer.model_copy(update={"accelerator": None, "unverified": ("accelerator", "gpudirect_rdma")})
    merged = overlay({unread.name: unread}, [answer], asked("us-east-1"))[unread.name]
    assert merged.accelerator == answer.accelerator
    assert merged.unverified == ("gpudirect_rdma",)


def test_account_that_reports_no_accelerator_does_not_remove_a_known_one() -> None:
    answer = read("trn2u.48xlarge").model_copy(update={"accelerator": None})
    merged = overlay(SHIPPED, [answer], asked("us-east-1"))["trn2u.48xlarge"]
    assert merged.accelerator == SHIPPED["trn2u.48xlarge"].accelerator


def test_files_from_before_kinds_of_accelerators_are_read() -> None:
    flat = read("trn1.32xlarge").model_dump(exclude={"accelerator"})
    old = InstanceType.model_validate(
        flat | {"gpu": "Trainium", "gpu_count": 16, "gpu_memory_gib": 32.0, "gpu_partition": 1.0}
    )
    assert old.accelerator == Accelerator(kind="neuron", name="Trainium", count=16, memory_gib=32.0)
    h100 = InstanceType.model_validate(flat | {"gpu": "H100", "gpu_count": 8})
    assert h100.accelerator == Accelerator(kind="gpu", name="H100", count=8)
    assert InstanceType.model_validate(flat | {"gpu": None, "gpu_count": 0}).accelerator is None


def test_new_type_is_added_unchanged() -> None:
    new = read("p5.48xlarge", regions=frozenset({"us-east-1"})).model_copy(update={"name": "p7.48xlarge"})
    assert overlay(SHIPPED, [new], asked("us-east-1"))["p7.48xlarge"] == new
