"""Price changes between two catalogs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from gpufleet.catalog.listing import instance_prices
from gpufleet.catalog.models import InstanceType, Price, SpotPrices


@dataclass(frozen=True, slots=True)
class PriceChange:
    """A changed price in USD; `before` or `after` is None if unknown.

    Spot amounts are medians.
    """

    what: str
    kind: str
    region: str
    before: Decimal | None
    after: Decimal | None


def price_changes(
    before: Mapping[str, InstanceType], after: Mapping[str, InstanceType], regions: Iterable[str]
) -> Iterator[PriceChange]:
    """Return the prices of `regions` whose amount differs, in order of type, kind and region."""
    wanted = frozenset(regions)
    old, new = (_amounts(instances, wanted) for instances in (before, after))
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield PriceChange(*key, before=old.get(key), after=new.get(key))


def _amounts(
    instances: Mapping[str, InstanceType], regions: frozenset[str]
) -> dict[tuple[str, str, str], Decimal | None]:
    return {
        (row.what, row.kind, row.region): _amount(row.price)
        for row in instance_prices(instances.values())
        if row.region in regions
    }


def _amount(price: Price | SpotPrices) -> Decimal | None:
    return price.median if isinstance(price, SpotPrices) else price.amount
