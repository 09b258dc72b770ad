"""Unit prices from the catalog. A price that nobody published is an error and never 0.

Without a price of a region, the rate is an estimate from other regions. Its expected value is its upper end,
so that a budget never depends on a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.errors import InputError
from gpufleet.pricing.estimates import MARGIN, SPOT_FLOOR, estimate

if TYPE_CHECKING:
    from gpufleet.catalog import Catalog, Price
    from gpufleet.kinds import CapacityKind
    from gpufleet.pricing.models import Kind

HOURS_PER_MONTH = 730
MONTH = Decimal(HOURS_PER_MONTH)

_EXACT = Decimal("0.000001")


class UnpricedError(Exception):
    """No price is known. The message has the reason, without secret values.

    `what` and `kind` are those of the cost line, empty and None if the inputs cannot be read.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.what = ""
        self.kind: Kind | None = None


@contextmanager
def pricing_of(what: str, kind: Kind) -> Iterator[None]:
    """Add `what` and `kind` to each `UnpricedError` in the block."""
    try:
        yield
    except UnpricedError as error:
        error.what, error.kind = what, kind
        raise


class Rate(Struct, frozen=True):
    """A known unit price (an instance-hour, a GB-month), with source and date.

    `expected` is the usual price, `low` and `high` the lowest and highest known one. With `estimated`, the
    price of the region is not known, or has a weak source.
    """

    low: Decimal
    expected: Decimal
    high: Decimal
    source: str
    date: str | None
    note: str = ""
    estimated: bool = False

    def capped(self, most: Decimal | None) -> Rate:
        """Return the rate limited to `most` USD, unchanged for None."""
        return self if most is None else self._with(min(each, most) for each in self._amounts)

    def divided(self, parts: int) -> Rate:
        """Return the rate divided by `parts`."""
        return self if parts == 1 else self._with(settle(each / parts) for each in self._amounts)

    @property
    def _amounts(self) -> tuple[Decimal, Decimal, Decimal]:
        return self.low, self.expected, self.high

    def _with(self, amounts: Iterable[Decimal]) -> Rate:
        low, expected, high = amounts
        return replace(self, low=low, expected=expected, high=high)


class Prices(Struct, frozen=True):
    """The catalog's prices in one region. Each method raises `UnpricedError` if there is none."""

    catalog: Catalog
    region: str

    def node(self, instance: str, kind: CapacityKind) -> Rate:
        """Return USD per instance-hour for a purchase option.

        An On-Demand Capacity Reservation costs the on-demand price, used or not. The expected spot price is
        the median of the region's zones; an unknown one is estimated by the on-demand price, which it does
        not exceed.
        """
        if instance not in self.catalog.instances:
            raise UnpricedError(f"{instance} is not in the catalog")
        item = self.catalog.instances[instance]
        what = f"{instance}, {kind}, in {self.region}"
        if kind == "spot":
            spot = self.catalog.spot(instance, self.region)
            if spot is None:
                return self._spot_of(instance)
            date = spot.date.isoformat() if spot.date is not None else None
            return _above_zero(Rate(spot.low, spot.median, spot.high, spot.source, date, spot.note), what)
        if kind == "capacity-block":
            return self._rate(self.catalog.capacity_block(instance, self.region), item.capacity_block, what)
        return self._rate(self.catalog.on_demand(instance, self.region), item.on_demand, what)

    def service(self, key: str) -> Rate:
        """Return USD per unit of a service (`nat-gateway-hour`)."""
        service = self.catalog.services[key]
        price, what = self.catalog.service_price(key, self.region), f"{service.title} in {self.region}"
        return self._rate(price, service.prices, what, alike=False)

    def lustre(self, deployment: str, throughput: int | None) -> Rate:
        """Return USD per GB-month of an FSx for Lustre tier; throughput in MB/s per TiB."""
        try:
            tier = self.catalog.lustre_tier(deployment, throughput)
        except InputError as error:
            raise UnpricedError(error.message) from None
        price = self.catalog.lustre_price(tier, self.region)
        return self._rate(price, tier.prices, f"{deployment} in {self.region}", alike=False)

    def _spot_of(self, instance: str) -> Rate:
        reason = f"no spot price of {instance} in {self.region} is known"
        try:
            most = self.node(instance, "on-demand")
        except UnpricedError:
            raise UnpricedError(reason) from None
        note = f"{reason}: at most the on-demand price"
        return replace(most, low=settle(most.low * SPOT_FLOOR), note=note, estimated=True)

    def _rate(self, price: Price, known: Mapping[str, Price], what: str, *, alike: bool = True) -> Rate:
        if price.amount is not None:
            date = price.date.isoformat() if price.date is not None else None
            rate = Rate(price.amount, price.amount, price.amount, price.source, date, price.note)
            if not price.verified:
                high = price.amount * MARGIN
                note = joined([price.note, "a weak source: counted with a margin"])
                rate = replace(rate, expected=high, high=high, note=note, estimated=True)
            return _above_zero(rate, what)
        reason = price.note or "no price is known"
        # A region that the catalog does not know has no estimate.
        found = estimate(known, alike=alike) if self.region in self.catalog.regions else None
        if found is None:
            raise UnpricedError(reason)
        source = known[found.region]
        date = source.date.isoformat() if source.date is not None else None
        note = f"{reason}: {found.how}"
        return Rate(found.low, found.high, found.high, source.source, date, note, estimated=True)


def _above_zero(rate: Rate, what: str) -> Rate:
    if min(rate.low, rate.expected, rate.high) <= 0:
        raise UnpricedError(f"the catalog has a price of 0 for {what}, which is invalid")
    return rate


def hours_of(length: timedelta) -> Decimal:
    """Return a duration in hours, exact for multiples of 36 seconds."""
    return settle(Decimal(length // timedelta(microseconds=1)) / Decimal(3_600_000_000))


def settle(amount: Decimal) -> Decimal:
    """Round the result of a division to a millionth, so that sums are exact in any order."""
    return amount.quantize(_EXACT, ROUND_HALF_EVEN)


def number(amount: Decimal) -> str:
    """Return a number as text, without exponent and trailing zeros."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def joined(texts: Iterable[str]) -> str:
    """Join distinct texts in order."""
    return "; ".join(dict.fromkeys(text for text in texts if text))


def oldest(dates: Iterable[str | None]) -> str | None:
    """Return the oldest date, None if one is missing or there are none."""
    found = list(dates)
    known = [date for date in found if date is not None]
    return min(known) if known and len(known) == len(found) else None
