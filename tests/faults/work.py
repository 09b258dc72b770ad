"""One process of the sweep: its share of the cases of each environment."""

from __future__ import annotations

import argparse
import gc
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.sweep import WHOLE, Sweep, SweepResult
from tests.faults.world import World

ENVIRONMENTS = ("dev", "sandbox")
KINDS = ("death", "refused", "answer lost", "500", "interrupted", "whole", "no capacity")
TYPES = {
    "dev": ("g6.xlarge", "g6.8xlarge", "g6e.xlarge", "m7i.large"),
    "sandbox": ("g6.xlarge", "g6.8xlarge", "g6e.xlarge", "g6e.2xlarge", "p5.4xlarge", "p5.48xlarge"),
}


def cases(sweep: Sweep, kinds: set[str], together: int, seed: int) -> Iterator[SweepResult]:
    """The cases of one process."""
    if "death" in kinds:
        yield from sweep.deaths(sweep.calls)
    if "refused" in kinds:
        yield from sweep.refusals(sweep.calls, together)
    if "answer lost" in kinds:
        yield from sweep.lost(sweep.calls, together)
    if "500" in kinds:
        yield from sweep.broken(sweep.calls, 5 * together)
    if "interrupted" in kinds:
        yield from sweep.interrupts(seed + sweep.part, gap=9)
    if "whole" in kinds:
        yield from sweep.whole(list(WHOLE)[sweep.part :: sweep.parts])
    if "no capacity" in kinds:
        yield from sweep.shortages(TYPES[sweep.environment][sweep.part :: sweep.parts])


def work(options: argparse.Namespace, worker: int, found: Any) -> None:
    """One process: all environments, its share of the cases.

    Puts (environment, result) for each case, (environment, calls, unreached calls) after the last one of an
    environment, and at the end its largest resident size in MiB.
    """
    # `tests.conftest` stops the collector during imports, and cases leave cycles.
    gc.enable()
    share, shares = options.part
    part, parts = (share - 1) * options.workers + worker, shares * options.workers
    with tempfile.TemporaryDirectory(prefix="gpufleet-faults-") as folder:
        world = World(Path(folder))
        try:
            for environment in options.environments:
                sweep = Sweep(world, environment, part, parts)
                for one in cases(sweep, set(options.kinds), options.together, options.seed):
                    found.put((environment, one))
                found.put((environment, len(sweep.calls), sweep.unreached))
        finally:
            world.close()
            found.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
