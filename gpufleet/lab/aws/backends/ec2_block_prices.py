"""The upfront fee of a Capacity Block offering: from the catalog where it knows one.

A fee that the catalog does not know is fictitious, and the offering's id says so: a sandbox must
offer blocks of every type, and must not pass a made-up figure off as a price.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import lru_cache

FICTITIOUS_USD_PER_INSTANCE_HOUR = Decimal(1)
"""So far from any real price that nobody takes it for one."""


def upfront_fee(instance_type: str, region: str, count: int, duration: dt.timedelta) -> tuple[str, bool]:
    """USD for `count` instances over `duration`, and whether it rests on a known price."""
    known = _usd_per_instance_hour(instance_type, region)
    hourly = FICTITIOUS_USD_PER_INSTANCE_HOUR if known is None else known
    hours = Decimal(int(duration / dt.timedelta(hours=1)))
    return f"{hourly * count * hours:.2f}", known is not None


@lru_cache(maxsize=256)
def _usd_per_instance_hour(instance_type: str, region: str) -> Decimal | None:
    from gpufleet.catalog import load_catalog

    catalog = load_catalog()
    return (
        catalog.capacity_block(instance_type, region).amount if instance_type in catalog.instances else None
    )
