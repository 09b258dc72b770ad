"""Timing, and one row of the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measurement and its peer: seconds of each run."""

    what: str
    size: str
    ours: list[float]
    peer: str
    peers: list[float]


def seconds(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def interleaved(
    ours: Callable[[], object], peer: Callable[[], object], rounds: int
) -> tuple[list[float], list[float]]:
    """Alternate both calls, so that other load affects both equally."""
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        mine.append(seconds(ours))
        theirs.append(seconds(peer))
    return mine, theirs
