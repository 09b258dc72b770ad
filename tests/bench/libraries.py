"""Parts of every command: loading the catalog, pricing a stack. The peer is a bare parse of the same data."""

from __future__ import annotations

import json
from pathlib import Path

import gpufleet.catalog as catalog_package
from gpufleet.catalog import load_catalog
from gpufleet.pricing import price_stack
from gpufleet.resources.stack import Stack
from tests.bench.measure import Row, interleaved
from tests.bench.policies import RESOURCES, of_size

_DATA = Path(catalog_package.__file__).parent / "data"


def measure(rounds: int) -> list[Row]:
    """The catalog from its files, and the price of 2,000 resources."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(_DATA.rglob("*.json"))]
    resources = list(of_size(RESOURCES))
    inputs = [json.dumps(each.inputs, default=str) for each in resources]
    catalog = load_catalog()

    def load() -> None:
        catalog_package._load.cache_clear()
        load_catalog()

    def price() -> None:
        price_stack(Stack(resources), catalog)

    def parse(documents: list[str]) -> None:
        for text in documents:
            json.loads(text)

    rows = []
    for what, size, call, documents in (
        ("load the catalog", f"{len(texts)} files", load, texts),
        ("price a stack", f"{RESOURCES:,} resources", price, inputs),
    ):
        ours, peers = interleaved(call, lambda kept=documents: parse(kept), rounds)
        rows.append(Row(what, size, ours, "a bare JSON parse", peers))
    return rows
