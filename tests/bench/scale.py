"""The scale case: both engines over the number of resources, their time and what they write.

Each size runs preview, up, a second up and destroy on either engine, each on an emulated AWS and a
state of its own, one verb after the other in turn, so that other load weighs on both alike.
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from rich.console import Console
from rich.table import Table

from gpufleet.engine import forks
from gpufleet.engine.api import Verb
from gpufleet.engine.select import select_engine
from tests.bench.engines import cli_backend, floor, run, sandboxed
from tests.bench.generate import teams_file
from tests.bench.measure import seconds
from tests.bench.written import counts, file_bytes

GROUPS = (3, 42, 92, 200)
"""Node groups of the fleets: about 100, 500, 1,000 and 2,000 resources."""

VERBS: tuple[tuple[Verb, str], ...] = (
    ("preview", "preview"),
    ("up", "up, everything to create"),
    ("up", "up, nothing to change"),
    ("destroy", "destroy"),
)


@dataclass
class Runs:
    """One verb on one engine: seconds and stored bytes of each run."""

    seconds: list[float] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)

    @property
    def time(self) -> float:
        """The median."""
        return statistics.median(self.seconds)


@dataclass
class Size:
    """Results of one fleet: by verb for gpufleet and the CLI (empty without it), and the SDK's floor."""

    groups: int
    resources: int = 0
    ours: dict[str, Runs] = field(default_factory=dict)
    peer: dict[str, Runs] = field(default_factory=dict)
    bare: list[float] = field(default_factory=list)


@dataclass
class Budget:
    """Time budget of the CLI: the time of the next size is estimated by the square of the last growth."""

    left: float
    last: tuple[int, float] | None = None

    def allows(self, resources: int) -> bool:
        """Whether a fleet of this size will probably fit."""
        if self.last is None:
            return self.left > 0
        before, took = self.last
        return took * (resources / before) ** 2 <= self.left

    def spend(self, resources: int, took: float) -> None:
        """Record a measured size."""
        self.left -= took
        self.last = resources, took


def report(console: Console, folder: Path, groups: Sequence[int], rounds: int, cli_seconds: float) -> None:
    """Measure all sizes and print times, growth and stored bytes."""
    budget = Budget(cli_seconds)
    has_cli = shutil.which("pulumi") is not None
    stored = counts(folder)
    sizes: list[Size] = []
    try:
        for count in sorted(groups):
            size = measure(folder / f"scale-{count}", count, rounds, budget if has_cli else None)
            sizes.append(size)
            console.print(f"{size.resources} resources: done", highlight=False)
            if has_cli and not size.peer:
                console.print(
                    f"{size.resources} resources: without the Pulumi CLI, which would take longer than the "
                    f"{budget.left:.0f} s that are left of --cli-seconds."
                )
    finally:
        # Also after an interruption: the largest fleet takes most of the time.
        if sizes:
            console.print(times(sizes))
        if sizes and stored:
            console.print(stores(sizes))
    if not has_cli:
        console.print("The Pulumi CLI is not on PATH: its columns are empty.")
    if not stored:
        console.print(f"{folder}: this file system counts no writes, so stored bytes are left out.")


def measure(folder: Path, groups: int, rounds: int, budget: Budget | None) -> Size:
    """One fleet on both engines; the CLI only where `budget` allows it."""
    folder.mkdir()
    size, text = Size(groups), teams_file(groups)
    with ExitStack() as stack:
        mine = stack.enter_context(sandboxed(folder / "embedded", text))
        request = mine.request("bench", "sandbox")
        embedded = select_engine("embedded")
        size.resources = sum(run(embedded, "preview", request).changes.to_json().values())
        calls: list[tuple[dict[str, Runs], Callable[[Verb], object]]] = [
            (size.ours, lambda verb: run(embedded, verb, request))
        ]
        if budget is not None and budget.allows(size.resources):
            theirs = stack.enter_context(sandboxed(folder / "cli", text))
            backend = cli_backend(theirs.root)
            other = theirs.request("bench", "sandbox")

            def cli(verb: Verb) -> object:
                with mock.patch.dict(os.environ, backend):
                    return run(select_engine("pulumi"), verb, other)

            calls.append((size.peer, cli))
        for verb, what in VERBS:
            for _ in range(rounds if what in ("preview", "up, nothing to change") else 1):
                for place, call in calls:
                    _note(place.setdefault(what, Runs()), call, verb)
                if verb == "preview":
                    size.bare.append(seconds(lambda: floor(mine.root)))
    if budget is not None and size.peer:
        budget.spend(size.resources, sum(sum(runs.seconds) for runs in size.peer.values()))
    return size


def _note(runs: Runs, call: Callable[[Verb], object], verb: Verb) -> None:
    before = file_bytes()
    runs.seconds.append(seconds(lambda: call(verb)))
    # Writes of a process count when it and its parent have ended.
    forks.end()
    runs.stored.append(file_bytes() - before)


def times(sizes: Sequence[Size]) -> Table:
    """Seconds, milliseconds a resource, and the growth of these beside the smallest size."""
    table = Table(
        *("what", "resources", "ours, s", "ms each", "growth", "ms each more", "floor, s"),
        *("CLI, s", "CLI's growth", "ours / CLI"),
        title="engines; growth: time a resource beside the smallest fleet; each more: beside the one before",
    )
    for _, what in VERBS:
        first = sizes[0]
        for former, size in zip([None, *sizes], sizes, strict=False):
            mine, peer = size.ours[what], size.peer.get(what)
            table.add_row(
                what,
                f"{size.resources:,}",
                f"{mine.time:.1f}",
                f"{mine.time / size.resources * 1000:.1f}",
                f"{_growth(first, size, first.ours[what], mine):.2f}",
                _slope(former, size, what),
                f"{statistics.median(size.bare):.1f}" if what == "preview" else "",
                f"{peer.time:.1f}" if peer else "",
                f"{_growth(first, size, first.peer[what], peer):.2f}" if peer else "",
                f"{mine.time / peer.time:.2f}" if peer else "",
            )
    return table


def _growth(first: Size, size: Size, before: Runs, now: Runs) -> float:
    return (now.time / size.resources) / (before.time / first.resources)


def _slope(former: Size | None, size: Size, what: str) -> str:
    """Cost of each additional resource, without the start-up time."""
    if former is None or former.resources == size.resources:
        return ""
    more = size.ours[what].time - former.ours[what].time
    return f"{more / (size.resources - former.resources) * 1000:.1f}"


def stores(sizes: Sequence[Size]) -> Table:
    """Bytes a resource that each verb stores."""
    table = Table(
        *("what", "resources", "ours, KiB a resource", "CLI, KiB a resource", "ours / CLI"),
        title="stored in files: journal, checkpoint and backups beside the CLI's file backend",
    )
    for _, what in VERBS:
        for size in sizes:
            mine = statistics.median(size.ours[what].stored) / size.resources / 1024
            peer = size.peer.get(what)
            theirs = statistics.median(peer.stored) / size.resources / 1024 if peer else 0.0
            table.add_row(
                what,
                f"{size.resources:,}",
                f"{mine:.1f}",
                f"{theirs:.1f}" if peer else "",
                f"{mine / theirs:.3f}" if theirs else "",
            )
    return table
