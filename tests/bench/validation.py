"""Validating a fleet file beside a bare YAML parse of the same file."""

from __future__ import annotations

from pathlib import Path

import yaml

from gpufleet.checks import validate
from gpufleet.spec.load import load_fleet
from tests.bench.generate import fleet_file
from tests.bench.measure import Row, interleaved


def measure(folder: Path, rounds: int) -> list[Row]:
    """Reading, and reading with all checks, of fleets with 200 and 1,000 node groups."""
    rows = []
    for groups in (200, 1000):
        path = folder / f"fleet-{groups}.yaml"
        path.write_text(fleet_file(groups), encoding="utf-8")
        text = path.read_text(encoding="utf-8")

        def parse(text: str = text) -> object:
            return yaml.load(text, Loader=yaml.CSafeLoader)

        def read(path: Path = path) -> object:
            return load_fleet(str(path), root=folder)

        def check(path: Path = path) -> object:
            return validate(str(path), root=folder)

        size = f"{groups} node groups"
        for what, call in (("read a fleet file", read), ("read and check it", check)):
            call()
            ours, peers = interleaved(call, parse, rounds)
            rows.append(Row(what, size, ours, "bare YAML parse (libyaml)", peers))
    return rows
