"""The EBS volumes that resources declare."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.catalog import Price, load_catalog
from gpufleet.pricing.cost import Sizes
from gpufleet.pricing.disks import Disk, disks_amount, price_root_volumes, price_volume
from gpufleet.pricing.of_stack.disks import instance_disks, read_disk, template_disks
from gpufleet.pricing.rates import Prices, UnpricedError
from gpufleet.resources.resource import UNKNOWN, Resource

EBS = {"volumeSize": 200, "volumeType": "gp3"}
GP3 = Disk("gp3", 200, None, None)
ROOT = {"deviceName": "/dev/xvda", "ebs": EBS}
MORE = {
    "deviceName": "/dev/sdf",
    "ebs": {"volumeSize": 50, "volumeType": "gp3", "iops": 4000, "throughput": 200},
}
SECOND = Disk("gp3", 50, 4000, 200)


def of_template(*mappings: Any) -> list[Disk]:
    return template_disks(Resource("template", "one", "urn", {"blockDeviceMappings": list(mappings)}))


@pytest.mark.parametrize(
    ("changes", "disk"),
    [
        ({}, GP3),
        ({"volumeType": None}, Disk("gp2", 200, None, None)),
        ({"iops": 5000}, Disk("gp3", 200, 5000, None)),
        ({"throughput": 300}, Disk("gp3", 200, None, 300)),
    ],
)
def test_volume_is_read(changes: dict[str, Any], disk: Disk) -> None:
    assert read_disk(EBS | changes, "ebs") == disk


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"volumeType": UNKNOWN}, "ebs.volumeType is not known yet"),
        ({"volumeSize": None}, "ebs.volumeSize is not set"),
        ({"volumeSize": 0}, "ebs.volumeSize is 0"),
        ({"iops": UNKNOWN}, "ebs.iops is"),
    ],
)
def test_unknown_volume_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnpricedError, match=reason):
        read_disk(EBS | changes, "ebs")


@pytest.mark.parametrize(
    ("mappings", "disks"),
    [
        ([ROOT], [GP3]),
        ([ROOT, MORE], [GP3, SECOND]),
        ([MORE, ROOT], [SECOND, GP3]),
        ([ROOT, {"deviceName": "/dev/sdb", "virtualName": "ephemeral0"}], [GP3]),
        ([ROOT | {"deviceName": "/dev/sda1"}], [GP3]),
    ],
)
def test_volumes_of_a_template_are_read(mappings: list[Any], disks: list[Disk]) -> None:
    assert of_template(*mappings) == disks


@pytest.mark.parametrize(
    ("mappings", "reason"),
    [
        ([], "no entry of blockDeviceMappings is the root volume"),
        ([MORE], "no entry of blockDeviceMappings is the root volume"),
        ([ROOT, UNKNOWN], "blockDeviceMappings is not known yet"),
        ([{"deviceName": "/dev/xvda", "ebs": UNKNOWN}], "blockDeviceMappings is not known yet"),
    ],
)
def test_unknown_volumes_of_a_template_are_refused(mappings: list[Any], reason: str) -> None:
    with pytest.raises(UnpricedError, match=reason):
        of_template(*mappings)


@pytest.mark.parametrize(
    ("values", "disks"),
    [
        ({"rootBlockDevice": EBS}, [GP3]),
        ({"rootBlockDevice": [EBS]}, [GP3]),
        ({"rootBlockDevice": EBS, "ebsBlockDevices": [MORE["ebs"]]}, [GP3, SECOND]),
    ],
)
def test_volumes_of_an_instance_are_read(values: dict[str, Any], disks: list[Disk]) -> None:
    assert instance_disks(values) == disks


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "size is not declared"),
        ({"rootBlockDevice": []}, "size is not declared"),
        ({"rootBlockDevice": "large"}, "size is not declared"),
        ({"rootBlockDevice": UNKNOWN}, "block devices are not known yet"),
        ({"rootBlockDevice": [UNKNOWN]}, "block devices are not known yet"),
        ({"rootBlockDevice": EBS, "ebsBlockDevices": UNKNOWN}, "block devices are not known yet"),
        ({"rootBlockDevice": EBS, "ebsBlockDevices": [UNKNOWN]}, "ebsBlockDevices is not known yet"),
    ],
)
def test_unknown_volumes_of_an_instance_are_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnpricedError, match=reason):
        instance_disks(values)


@pytest.mark.parametrize(
    ("disk", "charges"),
    [
        (Disk("gp3", 200, 3000, 125), ["200 GB-month"]),
        (Disk("gp3", 200, 3001, 126), ["200 GB-month", "1 IOPS-month", "1 MBps-month"]),
        (Disk("io2", 200, 100, None), ["200 GB-month", "100 IOPS-month"]),
        (Disk("io2", 200, 32_000, None), ["200 GB-month", "32000 IOPS-month"]),
        (Disk("io2", 200, 32_001, None), ["200 GB-month", "32000 IOPS-month", "1 IOPS-month"]),
        (Disk("io2", 200, 64_000, None), ["200 GB-month", "32000 IOPS-month", "32000 IOPS-month"]),
        (
            Disk("io2", 256, 256_000, None),
            ["256 GB-month", "32000 IOPS-month", "32000 IOPS-month", "192000 IOPS-month"],
        ),
    ],
)
def test_only_what_is_above_a_volumes_baseline_is_charged(disk: Disk, charges: list[str]) -> None:
    cost = price_volume(Prices(load_catalog(), "us-east-1"), disk)
    assert len(cost.rates) == len(charges)
    parts = cost.basis.partition("(")[2].partition(")")[0].split(" + ")
    assert [part.partition(" x ")[0] for part in parts] == charges


def test_basis_says_how_long_the_volumes_exist() -> None:
    prices = Prices(load_catalog(), "us-east-1")
    assert price_volume(prices, GP3).basis == "1 x (200 GB-month x 0.08 USD)"
    day = price_root_volumes(prices, lambda: [GP3], Sizes(0, 1, 2), Decimal(24))
    assert day.basis == "1 x (200 GB-month x 0.08 USD) x 24/730 h; 0 to 2 nodes"


@pytest.mark.parametrize(
    ("region", "iops", "usd"),
    [
        ("us-east-1", 64_000, "3536"),  # 32,000 x 0.065 + 32,000 x 0.0455
        ("us-east-1", 100_000, "4682.6"),  # + 36,000 x 0.03185
        ("ap-northeast-1", 64_000, "4025.6"),  # 32,000 x 0.074 + 32,000 x 0.0518
    ],
)
def test_iops_of_io2_cost_less_in_higher_tiers(region: str, iops: int, usd: str) -> None:
    """Prices of AWS's price list, usage types EBS:VolumeP-IOPS.io2, .tier2 and .tier3."""
    prices = Prices(load_catalog(), region)
    cost = price_volume(prices, Disk("io2", 1000, iops, None))
    assert cost.expected - 1000 * prices.service("ebs-io2").expected == Decimal(usd)
    assert disks_amount(prices, [Disk("io2", 1000, iops, None)]) == cost.expected


def with_first_tier(usd: str) -> Prices:
    """The catalog with a region where only the price of the first 32,000 IOPS of io2 is known."""
    catalog, key = load_catalog(), "ebs-io2-iops"
    price = Price(amount=Decimal(usd), unit="IOPS-month", source="test")
    service = catalog.services[key]
    known = service.model_copy(update={"prices": {**service.prices, "eu-north-1": price}})
    return Prices(replace(catalog, services={**catalog.services, key: known}), "eu-north-1")


def test_unknown_higher_tier_costs_at_most_the_first() -> None:
    """No source says that AWS's discounts, 30 % and 51 %, hold in every region."""
    cost = price_volume(with_first_tier("0.068"), Disk("io2", 1000, 100_000, None))
    _, first, *higher = cost.rates
    assert not first.estimated and first.high == Decimal("0.068")
    assert [rate.low for rate in higher] == [Decimal("0.0455"), Decimal("0.03185")]
    for rate in higher:
        assert rate.estimated and rate.low < rate.expected == rate.high <= first.high
    assert higher[0].high == first.high
    assert "at most 0.068 USD, the price of the first 32,000" in higher[0].note
