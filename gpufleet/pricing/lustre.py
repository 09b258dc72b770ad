"""What an FSx for Lustre file system costs: by capacity and tier."""

from __future__ import annotations

from gpufleet.pricing.cost import Cost, steady
from gpufleet.pricing.rates import Prices, UnpricedError, number, pricing_of

BACKUPS = "backups of file systems, by the GB that changed"


def price_lustre(prices: Prices, deployment: str, gib: int, throughput: int | None) -> Cost:
    """A file system; throughput in MB/s per TiB, None where the deployment type fixes it.

    AWS's "GB-month" of FSx is 2^30 bytes (1.2 TiB in its console is 1,200 GiB): GiB are counted as
    they are.
    """
    speed = f" {throughput} MB/s/TiB" if throughput is not None else ""
    what = f"FSx for Lustre {deployment}{speed}, {gib:,} GiB"
    with pricing_of(what, "storage"):
        if not gib:
            raise UnpricedError("a capacity of 0 cannot be")
        rate = prices.lustre(deployment, throughput)
    basis = f"{gib} GB-month x {number(rate.expected)} USD"
    return steady(what, "storage", gib * rate.expected, basis, rate)


def price_metadata_iops(iops: object) -> Cost:
    """Provisioned metadata IOPS: no price of them was read."""
    with pricing_of(f"{iops} metadata IOPS", "storage"):
        raise UnpricedError("no price of provisioned metadata IOPS was read")
