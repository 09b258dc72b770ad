"""The cost of FSx for Lustre file systems."""

from __future__ import annotations

import pytest

from gpufleet.catalog.lustre import included_metadata_iops
from gpufleet.pricing.lustre import price_lustre, price_metadata_iops
from gpufleet.pricing.rates import Prices, UnpricedError
from tests.unit.pricing.stacks import CATALOG

PRICES = Prices(CATALOG, "us-east-1")


@pytest.mark.parametrize(
    ("deployment", "throughput", "name"),
    [("SCRATCH_2", None, "SCRATCH_2"), ("PERSISTENT_2", 250, "PERSISTENT_2 250 MB/s/TiB")],
)
def test_file_system_costs_its_gib_at_the_price_of_its_tier(
    deployment: str, throughput: int | None, name: str
) -> None:
    cost = price_lustre(PRICES, deployment, 2400, throughput)
    assert cost.what == f"FSx for Lustre {name}, 2,400 GiB"
    rate = PRICES.lustre(deployment, throughput)
    assert (cost.minimum, cost.expected) == (2400 * rate.low, 2400 * rate.expected)


def test_file_system_without_capacity_has_no_price() -> None:
    with pytest.raises(UnpricedError, match="a capacity of 0 is invalid"):
        price_lustre(PRICES, "SCRATCH_2", 0, None)


def test_metadata_iops_above_those_included_are_paid() -> None:
    cost = price_metadata_iops(PRICES, 12_000)
    assert cost.what == "12,000 metadata IOPS above those included"
    assert cost.expected == 12_000 * PRICES.service("fsx-lustre-metadata-iops").expected


@pytest.mark.parametrize(
    ("gib", "iops"),
    [
        (600, 0), (1_200, 1_500), (2_400, 3_000), (4_800, 6_000), (9_600, 6_000), (12_000, 12_000),
        (45_600, 12_000), (48_000, 24_000), (69_600, 24_000), (72_000, 36_000), (76_800, 36_000),
    ],
)  # fmt: skip
def test_capacity_includes_metadata_iops_as_aws_publishes_it(gib: int, iops: int) -> None:
    assert included_metadata_iops(gib) == iops
