"""All prices of a catalog as one list, for tables, source lists and ages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from gpufleet.catalog.catalog import ANY_REGION, Catalog
from gpufleet.catalog.models import InstanceType, Price, ServicePrice, SpotPrices, System
from gpufleet.catalog.storage_models import LustreTier


class PriceRow(Struct, frozen=True):
    """One price: its subject, its kind (`on-demand`, `spot`, `capacity-block`, ...), and its region."""

    what: str
    kind: str
    region: str
    price: Price | SpotPrices


def instance_prices(instances: Iterable[InstanceType], region: str | None = None) -> Iterator[PriceRow]:
    """Yield prices of instance types, of one region or of all."""
    for item in instances:
        kinds: tuple[tuple[str, Mapping[str, Price] | Mapping[str, SpotPrices]], ...] = (
            ("on-demand", item.on_demand),
            ("spot", item.spot),
            ("capacity-block", item.capacity_block),
        )
        for kind, prices in kinds:
            for where in sorted(prices):
                if region is None or where == region:
                    yield PriceRow(item.name, kind, where, prices[where])


def storage_prices(tiers: Iterable[LustreTier], region: str | None = None) -> Iterator[PriceRow]:
    """Yield prices of Lustre tiers."""
    for tier in tiers:
        for where, price in sorted(tier.prices.items()):
            if region is None or where == region:
                yield PriceRow(tier.title, "lustre", where, price)


def service_prices(services: Iterable[ServicePrice], region: str | None = None) -> Iterator[PriceRow]:
    """Yield prices of cloud services; `what` is the key of `Catalog.service_price`."""
    for service in services:
        for where, price in sorted(service.prices.items()):
            if region is None or where in {region, ANY_REGION}:
                yield PriceRow(service.key, "service", where, price)


def system_prices(systems: Iterable[System]) -> Iterator[PriceRow]:
    """Yield prices of on-premises systems."""
    for system in systems:
        yield PriceRow(system.name, "system", ANY_REGION, system.price)


def all_prices(catalog: Catalog, region: str | None = None) -> tuple[PriceRow, ...]:
    """Return every price of the catalog, or those of one region."""
    return (
        *instance_prices(catalog.instances.values(), region),
        *storage_prices(catalog.lustre_tiers, region),
        *service_prices(catalog.services.values(), region),
        *system_prices(catalog.systems.values()),
    )
