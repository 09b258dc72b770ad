"""The cost of EBS volumes by type, size and speed, standalone or of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.kinds import GP3_IOPS, GP3_MB_S
from gpufleet.pricing.cost import ONE, Cost, Sizes
from gpufleet.pricing.rates import MONTH, Prices, Rate, UnpricedError, number, pricing_of, settle

IO2_TIERS = (("ebs-io2-iops", 0), ("ebs-io2-iops-tier2", 32_000), ("ebs-io2-iops-tier3", 64_000))
"""Price keys of the IOPS of an io2 volume, and the IOPS below each tier (Amazon EBS User Guide, "Understand
codes for Amazon EBS in billing and usage reports": up to 32,000, to 64,000, and above)."""


class Disk(Struct, frozen=True):
    """A volume: EBS volume type, GiB, IOPS, MB/s."""

    kind: str
    size: int
    iops: int | None
    throughput: int | None


def price_root_volumes(
    prices: Prices, disks: Callable[[], Sequence[Disk]], sizes: Sizes, hours: Decimal = MONTH
) -> Cost:
    """Return the cost of the volumes of nodes that exist for `hours` per month."""
    with pricing_of(f"{sizes.minimum} to {sizes.maximum} nodes' volumes", "storage"):
        return _price(prices, f"{sizes.expected} root volumes", disks(), sizes, hours)


def price_volume(prices: Prices, disk: Disk) -> Cost:
    """Return the cost of a standalone EBS volume."""
    with pricing_of(f"EBS volume, {disk.kind} {disk.size} GiB", "storage"):
        return _price(prices, "EBS volume", [disk], ONE, MONTH)


def disks_amount(prices: Prices, disks: Sequence[Disk]) -> Decimal:
    """Return USD per month for one set of volumes. Raises `UnpricedError`."""
    return sum((amount * rate.expected for amount, _, rate in _parts(prices, disks)), Decimal(0))


def _price(prices: Prices, what: str, disks: Sequence[Disk], sizes: Sizes, hours: Decimal) -> Cost:
    parts = _parts(prices, disks)

    def each(amounts: Callable[[Rate], Decimal]) -> Decimal:
        one = sum((amount * amounts(rate) for amount, _, rate in parts), Decimal(0))
        return settle(one * hours / MONTH)

    basis = " + ".join(f"{amount} {unit} x {number(rate.expected)} USD" for amount, unit, rate in parts)
    return Cost(
        f"{what}, {' and '.join(f'{disk.kind} {disk.size} GiB' for disk in disks)}",
        "storage",
        sizes.minimum * each(lambda rate: rate.low),
        sizes.expected * each(lambda rate: rate.expected),
        sizes.maximum * each(lambda rate: rate.high),
        f"{sizes.expected} x ({basis})"
        + ("" if hours == MONTH else f" x {number(hours)}/730 h")
        + sizes.span("nodes"),
        tuple(rate for _, _, rate in parts),
    )


def _parts(prices: Prices, disks: Sequence[Disk]) -> list[tuple[int, str, Rate]]:
    """Return amount, unit and rate of all charges of the volumes.

    A "GB-month" of EBS is 2^30 bytes, so GiB are used unchanged.
    """
    return [
        (amount, unit, _rate(prices, key)) for disk in disks for key, amount, unit in _charges(disk) if amount
    ]


def _rate(prices: Prices, key: str) -> Rate:
    """Return the rate of a charge. IOPS of a higher tier of io2 cost at most those of the first."""
    rate, (first_key, _) = prices.service(key), IO2_TIERS[0]
    if not rate.estimated or key == first_key or key not in dict(IO2_TIERS):
        return rate
    first = prices.service(first_key)
    if first.estimated:
        return rate
    note = f"{rate.note}, and at most {number(first.high)} USD, the price of the first 32,000"
    return replace(rate.capped(first.high), note=note)


def _charges(disk: Disk) -> Sequence[tuple[str, int, str]]:
    if disk.kind == "gp3":
        return (
            ("ebs-gp3", disk.size, "GB-month"),
            ("ebs-gp3-iops", max(0, (disk.iops or 0) - GP3_IOPS), "IOPS-month"),
            ("ebs-gp3-throughput", max(0, (disk.throughput or 0) - GP3_MB_S), "MBps-month"),
        )
    if disk.kind == "io2":
        if not disk.iops:
            raise UnpricedError("the IOPS of an io2 volume are not set")
        return (("ebs-io2", disk.size, "GB-month"), *_io2_iops(disk.iops))
    raise UnpricedError(f"no price is known for EBS {disk.kind} volumes")


def _io2_iops(iops: int) -> Iterator[tuple[str, int, str]]:
    """Yield the IOPS of a volume by tier."""
    ends = [start for _, start in IO2_TIERS[1:]] + [iops]
    for (key, start), end in zip(IO2_TIERS, ends, strict=True):
        yield key, max(0, min(iops, end) - start), "IOPS-month"
