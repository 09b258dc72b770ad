"""Output of `gpufleet catalog`: a table with age and sources of prices, or JSON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from rich.table import Table
from rich.text import Text

from gpufleet.catalog import STALE_AFTER_DAYS, price_age
from gpufleet.catalog.listing import PriceRow
from gpufleet.catalog.models import Fact, InstanceType, UsageClass
from gpufleet.cli.console import is_quiet, out
from gpufleet.report.tables import print_table

REFRESHABLE = get_args(UsageClass)


def today() -> dt.date:
    """Return the date to compute the age of prices from."""
    return dt.datetime.now(tz=dt.UTC).date()


def show(
    table: Table,
    rows: Sequence[PriceRow],
    sources: bool,
    *,
    count: int,
    legend: str,
    notes: Sequence[str] = (),
) -> None:
    """Print the table, its legend, a warning for old prices, and sources if requested."""
    if count == 0:
        out.print("no catalog entry matches all filters; remove one")
        return
    print_table(table, out)
    if not is_quiet():
        out.print(Text(legend, style="dim"), soft_wrap=True)
        for line in _age_lines(rows):
            out.print(line, soft_wrap=True)
    if sources:
        for line in (*_source_lines(rows), *notes):
            out.print(Text(f"  {line}"), soft_wrap=True)


def _age_lines(rows: Sequence[PriceRow]) -> list[str]:
    """Return the warning for old prices, and the number of prices without a date."""
    ages = [age for row in rows if (age := price_age(row.price, today())) is not None]
    old = [age for age in ages if age > STALE_AFTER_DAYS]
    lines = []
    if old:
        lines.append(
            f"[yellow]warning:[/yellow] {len(old)} of {len(rows)} prices older than {STALE_AFTER_DAYS} days, "
            f"the oldest {max(old)}"
        )
        if any(row.kind in REFRESHABLE for row in rows):
            lines.append("  `gpufleet catalog refresh` reads current prices from your AWS account")
    undated = sum(1 for row in rows if row.price.date is None and getattr(row.price, "known", True))
    if undated:
        lines.append(f"{undated} of {len(rows)} prices have no date in their source")
    return lines


def _source_lines(rows: Iterable[PriceRow]) -> list[str]:
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.price.source:
            date = row.price.date.isoformat() if row.price.date else "undated"
            counts[(row.price.source, date)] = counts.get((row.price.source, date), 0) + 1
    return [
        f"{count} price{'s' if count != 1 else ''} ({date}): {source}"
        for (source, date), count in sorted(counts.items(), key=lambda item: -item[1])
    ]


def facts_to_json(kind: str, facts: Sequence[Fact], rows: Sequence[PriceRow]) -> dict[str, Any]:
    """Return the stable JSON of `gpufleet catalog`: the facts under their kind, and their prices."""
    return {
        "kind": kind,
        kind: [_fact_to_json(fact) for fact in facts],
        "prices": [price_to_json(row) for row in rows],
    }


def _fact_to_json(fact: Fact) -> dict[str, Any]:
    """One entry; that of an instance type has its accelerator also under the keys from before kinds."""
    written = fact.model_dump(mode="json")
    if isinstance(fact, InstanceType):
        found = fact.accelerator
        written |= {
            "gpu": found.name if found else None,
            "gpu_count": found.count if found else 0,
            "gpu_memory_gib": found.memory_gib if found else None,
            "gpu_partition": found.partition if found else 1.0,
        }
    return written


def price_to_json(row: PriceRow) -> dict[str, Any]:
    """One price in the stable JSON, with its age."""
    age = price_age(row.price, today())
    return {
        "what": row.what,
        "kind": row.kind,
        "region": row.region,
        "unit": "instance-hour",
        **row.price.model_dump(mode="json"),
        "age_days": age,
        "stale": age is not None and age > STALE_AFTER_DAYS,
    }
