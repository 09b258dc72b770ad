"""The catalog's data files: reading them into facts, and writing those of `catalog refresh`.

A file has a table of sources (`{"sources": {"key": {"text": ..., "date": ...}}}`), so that each price refers
to its source and date by one key, and equal network cards in sequence are one entry. Amounts are strings: a
price is a decimal number, never a float.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from gpufleet.catalog.models import Fact, InstanceType, KeyPrices, Price, Region, RegionRead, SpotPrices
from gpufleet.errors import InputError

INSTANCES = "instances.json"
REGIONS = "regions.json"
SERVICES = "services.json"
EKS_IMAGES = "eks_images.json"
DEEP_LEARNING_IMAGES = "deep_learning_images.json"
PRICED_BY_REGION = ("on_demand", "capacity_block")

Model = TypeVar("Model", bound=Fact)


def read_entries(path: Path, model: type[Model], key: str) -> tuple[Model, ...]:
    """Return the entries under `key` of the file at `path`, with their sources.

    Raises InputError if the file cannot be read or an entry is not a `model`.
    """
    document = _read(path)
    sources = document.get("sources", {})
    entries = [_expand(entry, sources) for entry in document.get(key, ())]
    try:
        return _adapter(model).validate_python(entries)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: {key}.{where}: {first['msg']}", remedy=_REMEDY) from None


_REMEDY = "run `gpufleet catalog refresh`, or delete the file"


@cache
def _adapter(model: type[Model]) -> TypeAdapter[tuple[Model, ...]]:
    return TypeAdapter(tuple[model, ...])  # type: ignore[valid-type]


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a catalog file: {error}", remedy=_REMEDY) from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: not a catalog file: expected a JSON object", remedy=_REMEDY)
    return document


def _expand(value: Any, sources: Mapping[str, Mapping[str, str]]) -> Any:
    """Replace source keys by text and date, and sequences of cards by the cards."""
    if isinstance(value, list):
        return [_expand(item, sources) for item in value]
    if not isinstance(value, dict):
        return value
    expanded = {name: _expand(item, sources) for name, item in value.items()}
    source = sources.get(str(expanded.get("source")))
    if source is not None:
        expanded["source"] = source["text"]
        if source.get("date"):
            expanded.setdefault("date", source["date"])
    hardware = sources.get(str(expanded.get("hardware_source")))
    if hardware is not None:
        expanded["hardware_source"] = hardware["text"]
    for name in PRICED_BY_REGION:
        for price in expanded.get(name, {}).values():
            price.setdefault("unit", "instance-hour")
    if "cards" in expanded:
        expanded["cards"] = [
            {"index": index} | {key: item for key, item in run.items() if key not in {"first", "last"}}
            for run in expanded["cards"]
            for index in range(run["first"], run["last"] + 1)
        ]
    return expanded


class SourceTable:
    """Assigns a key to each (text, date); a written file starts with this table."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, dt.date | None], str] = {}

    def key(self, text: str, date: dt.date | None) -> str:
        """Return the key of this source, a new one the first time."""
        return self._keys.setdefault((text, date), f"s{len(self._keys) + 1}")

    def document(self) -> dict[str, dict[str, str]]:
        """Return the table as JSON."""
        return {
            key: {"text": text} | ({"date": date.isoformat()} if date else {})
            for (text, date), key in self._keys.items()
        }


def instances_text(instances: Iterable[InstanceType], read: Iterable[RegionRead] = ()) -> str:
    """Return the file of `instances`, one type per line, so that a diff shows which types changed.

    `read` lists the regions that were read from an account; the shipped file has none.
    """
    table = SourceTable()
    entries = [_instance(item, table) for item in sorted(instances, key=lambda item: item.name)]
    lines = ",\n  ".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    sources = json.dumps(table.document(), indent=2, ensure_ascii=False).replace("\n", "\n ")
    asked = json.dumps([item.model_dump(mode="json") for item in read])
    return f'{{\n "sources": {sources},\n "read": {asked},\n "instances": [\n  {lines}\n ]\n}}\n'


def services_text(services: Iterable[KeyPrices]) -> str:
    """Return the file of prices of services, one key per line."""
    lines = ",\n  ".join(json.dumps(item.model_dump(mode="json", exclude_defaults=True)) for item in services)
    return f'{{\n "services": [\n  {lines}\n ]\n}}\n'


def regions_text(regions: Iterable[Region]) -> str:
    """Return the file of `regions`, one region per line."""
    lines = ",\n  ".join(json.dumps(item.model_dump(mode="json")) for item in regions)
    return f'{{\n "regions": [\n  {lines}\n ]\n}}\n'


def _instance(item: InstanceType, table: SourceTable) -> dict[str, Any]:
    data: dict[str, Any] = item.model_dump(
        mode="json", exclude_defaults=True, exclude={"cards", "spot", *PRICED_BY_REGION}
    )
    for name in ("usage_classes", "placement_strategies", "regions"):
        if name in data:
            data[name] = sorted(data[name])
    data["cards"] = [
        {
            "first": run[0].index,
            "last": run[-1].index,
            "max_interfaces": run[0].max_interfaces,
            "peak_gbps": run[0].peak_gbps,
            "supports": sorted(run[0].supports),
        }
        for _, cards in groupby(
            item.cards, key=lambda card: (card.max_interfaces, card.peak_gbps, sorted(card.supports))
        )
        for run in [list(cards)]
    ]
    for name in PRICED_BY_REGION:
        prices: Mapping[str, Price] = getattr(item, name)
        if prices:
            data[name] = {region: _price(prices[region], table) for region in sorted(prices)}
    if item.spot:
        data["spot"] = {region: _spot(item.spot[region], table) for region in sorted(item.spot)}
    data["hardware_source"] = table.key(item.hardware_source, None)
    return data


def _price(price: Price, table: SourceTable) -> dict[str, Any]:
    data: dict[str, Any] = {"amount": None if price.amount is None else _amount(price.amount)}
    if price.source:
        data["source"] = table.key(price.source, price.date)
    if not price.verified:
        data["verified"] = False
    if price.note:
        data["note"] = price.note
    return data


def _spot(spot: SpotPrices, table: SourceTable) -> dict[str, Any]:
    return {
        "low": _amount(spot.low),
        "median": _amount(spot.median),
        "high": _amount(spot.high),
        "by_zone_id": {zone: _amount(spot.by_zone_id[zone]) for zone in sorted(spot.by_zone_id)},
        "source": table.key(spot.source, spot.date),
    } | ({"note": spot.note} if spot.note else {})


def _amount(amount: Decimal) -> str:
    return format(amount.normalize(), "f")
