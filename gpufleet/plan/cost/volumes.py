"""What the root volumes of a node group cost: gp3 by the GiB, and what exceeds the included speed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from gpufleet.catalog import Catalog
from gpufleet.plan.cost.ledger import MONTH, Ledger, Rate, joined, missing, number, settle
from gpufleet.plan.models import CostLine, CostRange, UnknownCost, VolumePlan

INCLUDED_IOPS = 3000
INCLUDED_MB_S = 125
"""What every gp3 volume has without extra charge."""


def gp3_parts(size_gib: int, iops: int, throughput: int) -> list[tuple[str, int, str]]:
    """What a gp3 volume is charged for: keys of the catalog's service prices, amounts and units."""
    parts = [
        ("ebs-gp3", size_gib, "GB-month"),
        ("ebs-gp3-iops", max(0, iops - INCLUDED_IOPS), "IOPS-month"),
        ("ebs-gp3-throughput", max(0, throughput - INCLUDED_MB_S), "MBps-month"),
    ]
    return [part for part in parts if part[1]]


@dataclass(frozen=True, slots=True)
class Volumes:
    """Root volumes of one kind of node: how many there are, and whose they are."""

    site: str
    owner: str
    volume: VolumePlan
    low: int
    expected: int
    high: int
    tags: Mapping[str, str]


def price_volumes(
    volumes: Volumes, region: str, catalog: Catalog, ledger: Ledger, hours: Decimal = MONTH
) -> None:
    """Add root volumes that exist for `hours` a month.

    AWS's "GB-month" of EBS is 2^30 bytes: GiB are counted as they are.
    """
    volume = volumes.volume
    one = Decimal(0)
    basis: list[str] = []
    rates: list[Rate] = []
    for key, amount, unit in gp3_parts(volume.size_gib, volume.iops, volume.throughput):
        price = catalog.service_price(key, region)
        rate = Rate.of(price)
        if rate is None:
            ledger.unknown.append(
                UnknownCost(
                    volumes.site,
                    volumes.owner,
                    f"{volumes.low} to {volumes.high} root volumes of {amount} {unit} each",
                    missing(price),
                )
            )
            continue
        one += amount * rate.expected
        basis.append(f"{amount} {unit} x {number(rate.expected)} USD")
        rates.append(rate)
    if not rates:
        return
    monthly = one if hours == MONTH else settle(one * hours / MONTH)
    dates = [rate.date for rate in rates]
    ledger.lines.append(
        CostLine(
            site=volumes.site,
            owner=volumes.owner,
            kind="storage",
            what=f"{volumes.expected} root volumes, gp3 {volume.size_gib} GiB",
            monthly=CostRange(volumes.low * monthly, volumes.expected * monthly, volumes.high * monthly),
            basis=f"{volumes.expected} x ({' + '.join(basis)})"
            + ("" if hours == MONTH else f" x {number(hours)}/730 h"),
            source=joined(rate.source for rate in rates),
            date=None if None in dates else min(date for date in dates if date is not None),
            tags=volumes.tags,
            note=joined(rate.note for rate in rates),
        )
    )
