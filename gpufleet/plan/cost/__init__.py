"""What a planned fleet costs a month: lines with their sources, what is unknown, and their sums."""

from gpufleet.plan.cost.age import StalePrice, price_age, stale_prices
from gpufleet.plan.cost.fleet import price_fleet

__all__ = ["StalePrice", "price_age", "price_fleet", "stale_prices"]
