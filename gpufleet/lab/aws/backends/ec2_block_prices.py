"""The upfront fee of a Capacity Block offering: from the catalog if known.

Other fees are fictitious, and the offering's id shows it: a sandbox must offer blocks of every type, and must
not present an invented figure as a price.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import lru_cache

FICTITIOUS_USD_PER_INSTANCE_HOUR = Decimal(1)
"""Far from any real price, so that it is not mistaken for one."""


def upfront_fee(instance_type: str, region: str, count: int, duration: dt.timedelta) -> tuple[str, bool]:
    """Return USD for `count` instances over `duration`, and whether it is based on a known price."""
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
