"""The cost of an FSx for Lustre file system by capacity and tier."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.catalog.lustre import included_metadata_iops
from gpufleet.pricing.cost import Cost, steady
from gpufleet.pricing.rates import Prices, UnpricedError, number, pricing_of

BACKUPS = "backups of file systems, by the GB that changed"


def price_lustre(prices: Prices, deployment: str, gib: int, throughput: int | None) -> Cost:
    """Return the cost of a file system. Throughput in MB/s per TiB, None if the deployment type fixes it.

    A "GB-month" of FSx is 2^30 bytes (1.2 TiB in its console is 1,200 GiB), so GiB are used unchanged.
    """
    speed = f" {throughput} MB/s/TiB" if throughput is not None else ""
    what = f"FSx for Lustre {deployment}{speed}, {gib:,} GiB"
    with pricing_of(what, "storage"):
        if not gib:
            raise UnpricedError("a capacity of 0 is invalid")
        rate = prices.lustre(deployment, throughput)
    basis = f"{gib} GB-month x {number(rate.expected)} USD"
    return steady(what, "storage", Decimal(gib), basis, rate)


def paid_metadata_iops(iops: int, gib: int) -> int:
    """Return how many provisioned metadata IOPS are above those that the capacity includes."""
    return max(0, iops - included_metadata_iops(gib))


def price_metadata_iops(prices: Prices, paid: int) -> Cost:
    """Return the cost of metadata IOPS above those that the capacity includes."""
    what = f"{paid:,} metadata IOPS above those included"
    with pricing_of(what, "storage"):
        rate = prices.service("fsx-lustre-metadata-iops")
    return steady(what, "storage", Decimal(paid), f"{paid} IOPS-month x {number(rate.expected)} USD", rate)
