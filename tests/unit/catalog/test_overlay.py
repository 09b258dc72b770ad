"""What an account answered, laid over what was known."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from gpufleet.catalog import InstanceType, Price, RegionRead, SpotPrices, load_catalog
from gpufleet.catalog.overlay import overlay

TODAY = dt.date(2026, 11, 21)
SHIPPED = load_catalog().instances


def asked(*regions: str, spot: bool = True) -> list[RegionRead]:
    return [RegionRead(name=name, date=TODAY, spot=spot) for name in regions]


def price(amount: str) -> Price:
    return Price(amount=Decimal(amount), unit="instance-hour", source="account ********9012", date=TODAY)


def read(name: str, **changes: object) -> InstanceType:
    """The type as an account answers it: without what EC2 does not tell."""
    bare = {"regions": frozenset(), "on_demand": {}, "spot": {}, "capacity_block": {}, "gpudirect_rdma": None}
    return SHIPPED[name].model_copy(update={**bare, "unverified": (), "notes": (), **changes})


def test_a_price_of_the_account_replaces_the_shipped_one_and_leaves_other_regions() -> None:
    answer = read("p5.48xlarge", regions=frozenset({"us-east-1"}), on_demand={"us-east-1": price("50")})
    merged = overlay(SHIPPED, [answer], asked("us-east-1"))["p5.48xlarge"]
    assert merged.on_demand["us-east-1"] == price("50")
    assert merged.on_demand["us-west-2"] == SHIPPED["p5.48xlarge"].on_demand["us-west-2"]
    assert merged.regions == SHIPPED["p5.48xlarge"].regions


def test_a_price_the_account_did_not_tell_stays() -> None:
    merged = overlay(SHIPPED, [read("p5.48xlarge", regions=frozenset({"us-east-1"}))], asked("us-east-1"))
    assert merged["p5.48xlarge"].on_demand == SHIPPED["p5.48xlarge"].on_demand
    assert merged["p5.48xlarge"].capacity_block == SHIPPED["p5.48xlarge"].capacity_block


def test_a_type_the_region_no_longer_offers_is_gone_from_it_alone() -> None:
    merged = overlay(SHIPPED, [], asked("us-east-1"))
    assert "us-east-1" not in merged["p5.48xlarge"].regions
    assert merged["p5.48xlarge"].regions == SHIPPED["p5.48xlarge"].regions - {"us-east-1"}
    assert merged.keys() == SHIPPED.keys()


def test_spot_that_the_account_no_longer_has_is_gone_unless_it_was_not_told() -> None:
    answer = read("p5.48xlarge", regions=frozenset({"us-east-1"}))
    assert "us-east-1" in SHIPPED["p5.48xlarge"].spot
    told = overlay(SHIPPED, [answer], asked("us-east-1"))["p5.48xlarge"].spot
    assert "us-east-1" not in told
    assert told.keys() == SHIPPED["p5.48xlarge"].spot.keys() - {"us-east-1"}
    untold = overlay(SHIPPED, [answer], asked("us-east-1", spot=False))["p5.48xlarge"].spot
    assert untold == SHIPPED["p5.48xlarge"].spot


def test_spot_of_the_account_replaces_the_shipped_snapshot() -> None:
    spot = SpotPrices(
        low=Decimal(1), median=Decimal(2), high=Decimal(3), by_zone_id={"use1-az1": Decimal(2)}, source="a"
    )
    answer = read("p5.48xlarge", regions=frozenset({"us-east-1"}), spot={"us-east-1": spot})
    assert overlay(SHIPPED, [answer], asked("us-east-1"))["p5.48xlarge"].spot["us-east-1"] == spot


def test_what_ec2_does_not_tell_is_kept_from_the_shipped_entry() -> None:
    merged = overlay(SHIPPED, [read("p5.48xlarge"), read("p5.4xlarge")], asked("us-east-1"))
    assert merged["p5.48xlarge"].gpudirect_rdma is True
    assert merged["p5.4xlarge"].unverified == SHIPPED["p5.4xlarge"].unverified
    assert merged["p5.4xlarge"].notes == SHIPPED["p5.4xlarge"].notes


def test_an_implausible_memory_stays_out_whatever_the_account_says() -> None:
    merged = overlay(SHIPPED, [read("trn2.48xlarge", gpu_memory_gib=512.0)], asked("us-east-1"))
    assert merged["trn2.48xlarge"].gpu_memory_gib is None


def test_an_accelerator_that_the_account_knows_is_no_longer_unverified() -> None:
    answer = read("trn2u.48xlarge", gpu="Trainium2", gpu_count=16, gpu_memory_gib=96.0)
    merged = overlay(SHIPPED, [answer], asked("us-east-1"))["trn2u.48xlarge"]
    assert (merged.gpu, merged.gpu_count, merged.gpu_memory_gib) == ("Trainium2", 16, 96.0)
    assert merged.unverified == ("gpudirect_rdma",)


def test_a_type_that_nobody_knew_comes_in_as_it_is() -> None:
    new = read("p5.48xlarge", regions=frozenset({"us-east-1"})).model_copy(update={"name": "p7.48xlarge"})
    assert overlay(SHIPPED, [new], asked("us-east-1"))["p7.48xlarge"] == new
