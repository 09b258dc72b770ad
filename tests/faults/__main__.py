"""`make faults`: every fault at every call of the first `up` of each environment, and what is then wrong.

Ends with 1 where the next `up` does not finish as if nothing had been.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from queue import Empty
from typing import Any

from tests.faults.work import ENVIRONMENTS, KINDS, work


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the sweep; see the module."""
    parser = argparse.ArgumentParser(prog="tests.faults")
    parser.add_argument("--environments", nargs="+", default=list(ENVIRONMENTS), choices=ENVIRONMENTS)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--together", type=int, default=10, help="calls that are refused in one run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    workers = [context.Process(target=work, args=(options, part, queue)) for part in range(options.workers)]
    started = time.monotonic()
    for worker in workers:
        worker.start()
    ended = _collect(queue, workers, started)
    for worker in workers:
        worker.join()
    return ended


def _collect(queue: Any, workers: list[Any], started: float) -> int:
    runs: Counter[tuple[str, str]] = Counter()
    calls: Counter[tuple[str, str]] = Counter()
    wrong = 0
    left = len(workers)
    while left:
        try:
            item = queue.get(timeout=5)
        except Empty:
            if not any(worker.is_alive() for worker in workers):
                say("a process of the sweep has died")
                return 1
            continue
        if item is None:
            left -= 1
            continue
        environment, found = item
        runs[environment, found.kind] += 1
        calls[environment, found.kind] += len(found.at.split(" ")) if "#" in found.at else 1
        wrong += bool(found.wrong)
        elapsed = time.monotonic() - started
        say(f"{elapsed:6.0f} s  {'WRONG' if found.wrong else 'ok':5} {environment} {found.kind} {found.at}")
        for line in found.wrong:
            say(f"        {line[:400]}")
    for key in runs:
        say(f"{key[0]} {key[1]}: {calls[key]} places in {runs[key]} runs")
    say(f"{wrong} of {sum(runs.values())} runs were not finished; {time.monotonic() - started:.0f} s")
    failed = wrong or any(worker.exitcode for worker in workers)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
