"""Prices of EC2 Reserved Instances: standard, no upfront, partly or all upfront, for one or three years.

`data/reserved_prices.csv` has effective USD per instance-hour (upfront payments divided by the hours of the
term) and the on-demand price of the same day. It has no rates of Savings Plans: AWS publishes them beside
its price list (`savingsPlan/v1.0/aws/AWSComputeSavingsPlan`), which `catalog refresh` does not read.
"""

import datetime as dt
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from gpufleet.catalog.models import Fact
from gpufleet.catalog.price_tables import read_table, source_text

Term = Literal["1y", "3y"]
Payment = Literal["none", "partial", "all"]
TERMS: tuple[Term, ...] = get_args(Term)
PAYMENTS: tuple[Payment, ...] = get_args(Payment)


class ReservedPrice(Fact):
    """Effective USD per instance-hour of a term and payment, and the on-demand price of the same day."""

    amount: Decimal
    on_demand_then: Decimal
    source: str
    date: dt.date


@cache
def _table() -> dict[tuple[str, str, Term, Payment], ReservedPrice]:
    """Return all prices; of several days the newest."""
    found: dict[tuple[str, str, Term, Payment], ReservedPrice] = {}
    for row in read_table(Path(__file__).parent / "data" / "reserved_prices.csv"):
        for term in TERMS:
            for payment in PAYMENTS:
                if not row[f"{term}-{payment}"]:
                    continue
                key = (row["type"], row["region"], term, payment)
                price = ReservedPrice(
                    amount=Decimal(row[f"{term}-{payment}"]),
                    on_demand_then=Decimal(row["on_demand"]),
                    source=source_text(row["source"]),
                    date=dt.date.fromisoformat(row["date"]),
                )
                if key not in found or found[key].date < price.date:
                    found[key] = price
    return found


def reserved_price(instance_type: str, region: str, term: Term, payment: Payment) -> ReservedPrice | None:
    """Return the newest price, None if none was read.

    If the on-demand price has changed since, the price was changed as well: callers compare
    `on_demand_then` and treat it as unknown.
    """
    return _table().get((instance_type, region, term, payment))
