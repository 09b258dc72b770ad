"""Money as people read it: rounded once, here, and never a 0 for an unknown amount."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

from gpufleet.pricing.models import Amount, CostLine


def money(amount: Decimal | None, currency: str = "USD") -> str:
    """`12,345 USD`, with cents below 100, `0 USD` for nothing at all, and `unknown` for None.

    An empty `currency` gives the number alone.
    """
    if amount is None:
        return "unknown"
    step = Decimal("0.01") if 0 < abs(amount) < 100 else Decimal(1)
    return f"{amount.quantize(step, ROUND_HALF_EVEN):,} {currency}".rstrip()


def money_range(cost: Amount | CostLine, currency: str = "USD") -> str:
    """`12,345 USD (10,000 to 20,000)`; the range only where it says something."""
    if not cost.known:
        return "unknown"
    text = money(cost.expected, currency)
    if cost.minimum == cost.maximum:
        return text
    return f"{text} ({money(cost.minimum, '')} to {money(cost.maximum, '')})"
