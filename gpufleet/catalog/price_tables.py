"""The shipped price tables: CSV files in data/ with a source and a date in each row.

`ec2_prices.csv` has on-demand and spot prices (USD per instance-hour) by type and region,
`capacity_block_prices.csv` those of Capacity Blocks, and `service_prices.csv` those of services and FSx for
Lustre by key and region. A source is a key of `sources.json`. A date is the day on which the price was
published or read, or the last possible one if the source's note says so; without a date the day is not known.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path

from gpufleet.catalog.models import InstanceType, Price, PriceUnit, SpotPrices

EC2 = "ec2_prices.csv"
CAPACITY_BLOCKS = "capacity_block_prices.csv"
SERVICES = "service_prices.csv"
_SOURCES = "sources.json"
_NO_MEDIAN = "of lowest and highest zone: the median is their mean"
_BLOCK_COLUMNS = 3
"""After type and region, the table of Capacity Blocks has a price, its date and its source."""

ByRegion = dict[str, dict[str, Price]]
"""Prices by key (an instance type, a service) and region."""


def read_table(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


class PricedInstances(Mapping[str, InstanceType]):
    """Instance types by name. The prices of a type are read when it is asked for."""

    def __init__(self, hardware: Mapping[str, InstanceType], data: Path) -> None:
        self._hardware, self._data = hardware, data
        self._rows: dict[str, list[list[str]]] = defaultdict(list)
        for file in (EC2, CAPACITY_BLOCKS):
            with (data / file).open(encoding="utf-8", newline="") as text:
                for row in csv.reader(text):
                    self._rows[row[0]].append(row)
        self._found: dict[str, InstanceType] = {}

    def __getitem__(self, name: str) -> InstanceType:
        if name not in self._found:
            self._found[name] = self._priced(self._hardware[name])
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._hardware)

    def __len__(self) -> int:
        return len(self._hardware)

    def _priced(self, item: InstanceType) -> InstanceType:
        sources = _sources(self._data)
        on_demand: dict[str, Price] = {}
        spot: dict[str, SpotPrices] = {}
        blocks: dict[str, Price] = {}
        for _, region, *row in self._rows[item.name]:
            if len(row) == _BLOCK_COLUMNS:
                blocks[region] = _price("instance-hour", row[0], row[1], sources[row[2]])
                continue
            if row[0]:
                on_demand[region] = _price("instance-hour", row[0], row[1], sources[row[2]])
            if row[3]:
                spot[region] = _spot(row[3:6], _day(row[6]), sources[row[7]])
        priced = {"on_demand": on_demand, "spot": spot, "capacity_block": blocks}
        return item.model_copy(update={**priced, "regions": item.regions | frozenset(blocks)})


def service_prices(data: Path, units: Mapping[str, PriceUnit]) -> ByRegion:
    """Return prices by key and region; `units` has the unit of each key that is not a Lustre tier."""
    sources = _sources(data)
    found: ByRegion = defaultdict(dict)
    for row in read_table(data / SERVICES):
        found[row["key"]][row["region"]] = _price(
            units.get(row["key"], "GB-month"),
            row["usd"],
            row["date"],
            sources[row["source"]],
            note=row["note"],
            verified=row["confidence"] != "low",
        )
    return found


def _price(
    unit: PriceUnit,
    amount: str,
    date: str,
    source: Mapping[str, str],
    *,
    note: str = "",
    verified: bool = True,
) -> Price:
    return Price(
        amount=Decimal(amount),
        unit=unit,
        source=source["text"],
        date=_day(date),
        verified=verified,
        note=note or source.get("note", ""),
    )


def _spot(amounts: Sequence[str], date: dt.date | None, source: Mapping[str, str]) -> SpotPrices:
    low, high = Decimal(amounts[0]), Decimal(amounts[2])
    notes = [source.get("note", ""), "" if amounts[1] or low == high else _NO_MEDIAN]
    return SpotPrices(
        low=low,
        median=Decimal(amounts[1]) if amounts[1] else (low + high) / 2,
        high=high,
        by_zone_id={},
        source=source["text"],
        date=date,
        note="; ".join(filter(None, notes)),
    )


@cache
def _day(text: str) -> dt.date | None:
    return dt.date.fromisoformat(text) if text else None


@cache
@cache
def source_text(key: str) -> str:
    """Return the text of a key of `sources.json`, with its note."""
    entry = _sources(Path(__file__).parent / "data")[key]
    return "; ".join(part for part in (entry["text"], entry.get("note", "")) if part)


def _sources(data: Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads((data / _SOURCES).read_text(encoding="utf-8"))
    return found
