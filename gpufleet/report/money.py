"""Money for people: rounded only here, and never 0 for an unknown amount."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

from gpufleet.pricing.models import Amount, CostLine


def money(amount: Decimal | None, currency: str = "USD") -> str:
    """Format `12,345 USD`, with cents below 100, `0 USD` for nothing, and `unknown` for None.

    An empty `currency` returns only the number.
    """
    if amount is None:
        return "unknown"
    step = Decimal("0.01") if 0 < abs(amount) < 100 else Decimal(1)
    return f"{amount.quantize(step, ROUND_HALF_EVEN):,} {currency}".rstrip()


def money_range(cost: Amount | CostLine, currency: str = "USD") -> str:
    """Format `12,345 USD (10,000 to 20,000)`; without the range if both ends are equal."""
    if not cost.known:
        return "unknown"
    text = money(cost.expected, currency)
    if cost.minimum == cost.maximum:
        return text
    return f"{text} ({money(cost.minimum, '')} to {money(cost.maximum, '')})"
