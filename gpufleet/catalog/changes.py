"""Price changes between two catalogs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

from msgspec import Struct

from gpufleet.catalog.catalog import Catalog
from gpufleet.catalog.listing import all_prices
from gpufleet.catalog.models import Price, SpotPrices


class PriceChange(Struct, frozen=True):
    """A changed price in USD per `unit`; `before` or `after` is None if unknown.

    Spot amounts are medians.
    """

    what: str
    kind: str
    region: str
    before: Decimal | None
    after: Decimal | None
    unit: str = "instance-hour"


def price_changes(before: Catalog, after: Catalog, regions: Iterable[str]) -> Iterator[PriceChange]:
    """Return the prices of `regions` whose amount differs, in order of type, kind and region."""
    wanted = frozenset(regions)
    old, new = (_prices(catalog, wanted) for catalog in (before, after))
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if (was and _amount(was)) != (now and _amount(now)):
            read = now or was
            unit = read.unit if isinstance(read, Price) else "instance-hour"
            yield PriceChange(
                *key, before=_amount(was) if was else None, after=_amount(now) if now else None, unit=unit
            )


def _prices(catalog: Catalog, regions: frozenset[str]) -> dict[tuple[str, str, str], Price | SpotPrices]:
    return {
        (row.what, row.kind, row.region): row.price for row in all_prices(catalog) if row.region in regions
    }


def _amount(price: Price | SpotPrices) -> Decimal | None:
    return price.median if isinstance(price, SpotPrices) else price.amount
