"""Unit prices: what the catalog has, estimates from other regions, and reasons without either."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from msgspec.structs import replace

from gpufleet.catalog import Catalog
from gpufleet.catalog.models import Price
from gpufleet.pricing.estimates import MARGIN, SPOT_FLOOR, SPREAD
from gpufleet.pricing.rates import Prices, UnpricedError, settle
from tests.unit.pricing.stacks import CATALOG, HOUR, TYPE

KEY = "nat-gateway-hour"
KNOWN = Price(
    amount=Decimal(2), unit="hour", source="AWS", date=dt.date(2026, 7, 1), note="since July", verified=True
)
UNKNOWN = Price(amount=None, unit="hour")


def of_service(region: str = "us-east-1", **prices: Price) -> Prices:
    """The prices of a region, of a service with these prices alone (`us_east_1=...`)."""
    known = {name.replace("_", "-"): price for name, price in prices.items()}
    service = CATALOG.services[KEY].model_copy(update={"prices": known})
    return Prices(replace(CATALOG, services={**CATALOG.services, KEY: service}), region)


def of_type(**changes: object) -> Catalog:
    """A catalog in which the type has other prices."""
    changed = CATALOG.instance(TYPE).model_copy(update=changes)
    return replace(CATALOG, instances={**CATALOG.instances, TYPE: changed})


def test_known_price_has_its_source_date_and_note() -> None:
    rate = of_service(us_east_1=KNOWN).service(KEY)
    assert (rate.low, rate.expected, rate.high) == (2, 2, 2)
    assert (rate.source, rate.date, rate.note, rate.estimated) == ("AWS", "2026-07-01", "since July", False)


def test_price_of_a_weak_source_counts_with_a_margin() -> None:
    rate = of_service(us_east_1=KNOWN.model_copy(update={"verified": False, "date": None})).service(KEY)
    assert (rate.low, rate.expected, rate.high) == (2, 2 * MARGIN, 2 * MARGIN)
    assert (rate.date, rate.estimated) == (None, True)
    assert rate.note == "since July; a weak source: counted with a margin"


@pytest.mark.parametrize(("date", "shown"), [(dt.date(2026, 7, 1), "2026-07-01"), (None, None)])
def test_price_of_another_region_gives_an_estimate(date: dt.date | None, shown: str | None) -> None:
    there = KNOWN.model_copy(update={"date": date})
    rate = of_service("eu-north-1", us_east_1=there).service(KEY)
    assert (rate.low, rate.expected, rate.high) == (2, 2 * SPREAD, 2 * SPREAD)
    assert (rate.source, rate.date, rate.estimated) == ("AWS", shown, True)


def test_price_known_nowhere_has_a_reason() -> None:
    with pytest.raises(UnpricedError, match=r"^no price is known$"):
        of_service(us_east_1=UNKNOWN).service(KEY)
    with pytest.raises(UnpricedError, match=r"^sold on request$"):
        of_service(us_east_1=UNKNOWN.model_copy(update={"note": "sold on request"})).service(KEY)


def test_region_outside_of_the_catalog_has_no_estimate() -> None:
    with pytest.raises(UnpricedError):
        of_service("xx-north-1", us_east_1=KNOWN).service(KEY)


def test_unknown_spot_price_is_at_most_the_on_demand_price() -> None:
    rate = Prices(of_type(spot={}), "us-east-1").node(TYPE, "spot")
    assert (rate.low, rate.expected, rate.high) == (settle(HOUR * SPOT_FLOOR), HOUR, HOUR)
    assert "at most the on-demand price" in rate.note
    with pytest.raises(UnpricedError, match=r"^no spot price of"):
        Prices(of_type(spot={}, on_demand={}), "us-east-1").node(TYPE, "spot")


def test_reservation_has_the_on_demand_price() -> None:
    prices = Prices(CATALOG, "us-east-1")
    assert prices.node(TYPE, "reserved") == prices.node(TYPE, "on-demand")
    with pytest.raises(UnpricedError, match=r"^h9.huge is not in the catalog$"):
        prices.node("h9.huge", "on-demand")
