"""The age of a price, and when to warn about it. The caller provides the date."""

from __future__ import annotations

import datetime as dt

from gpufleet.catalog.models import Price, SpotPrices

STALE_AFTER_DAYS = 180


def price_age(price: Price | SpotPrices, today: dt.date) -> int | None:
    """Return the days since the price was read from its publisher; None if unknown."""
    return None if price.date is None else (today - price.date).days


def is_stale(price: Price | SpotPrices, today: dt.date) -> bool:
    """Return whether the price is known to be older than `STALE_AFTER_DAYS`: a warning, never an error."""
    age = price_age(price, today)
    return age is not None and age > STALE_AFTER_DAYS


def age_text(price: Price | SpotPrices, today: dt.date) -> str:
    """Return `today`, `124 d`, or `undated`."""
    age = price_age(price, today)
    if age is None:
        return "undated"
    return "today" if age == 0 else f"{age} d"


def unknown_price(unit: str, note: str) -> Price:
    """Return the price of something without a known price."""
    return Price.model_validate({"amount": None, "unit": unit, "verified": False, "note": note})
