"""`make faults`: every fault at every call of the first `up` of each environment, and the remaining errors.

Exits with 1 if the next `up` does not finish as if there had been no fault.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from queue import Empty
from typing import Any

from tests.faults.sweep import SweepResult
from tests.faults.work import ENVIRONMENTS, KINDS, work


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def a_part(text: str) -> tuple[int, int]:
    """`I/N` as two numbers: the I-th of N shares."""
    share, _, shares = text.partition("/")
    if not 1 <= int(share) <= int(shares):
        raise ValueError(text)
    return int(share), int(shares)


def main() -> int:
    """Run the sweep; see the module."""
    parser = argparse.ArgumentParser(prog="tests.faults")
    parser.add_argument("--environments", nargs="+", default=list(ENVIRONMENTS), choices=ENVIRONMENTS)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--together", type=int, default=10, help="calls that are refused in one run")
    parser.add_argument("--part", type=a_part, default=(1, 1), metavar="I/N", help="the I-th of N shares")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    workers = [context.Process(target=work, args=(options, part, queue)) for part in range(options.workers)]
    for worker in workers:
        worker.start()
    tally = Tally()
    died = not _collect(queue, workers, tally)
    for worker in workers:
        worker.join()
    tally.say()
    return int(died or bool(tally.wrong) or any(worker.exitcode for worker in workers))


@dataclass
class Tally:
    """The figures of a sweep."""

    runs: Counter[tuple[str, str]] = field(default_factory=Counter)
    places: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: Counter[tuple[str, str]] = field(default_factory=Counter)
    calls: dict[str, int] = field(default_factory=dict)
    unreached: list[str] = field(default_factory=list)
    wrong: int = 0
    largest_mib: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        """Elapsed time."""
        return time.monotonic() - self.started

    def add(self, environment: str, found: SweepResult) -> None:
        """Count one case, and print it."""
        key = environment, found.kind
        self.runs[key] += 1
        self.places[key] += len(found.at)
        self.seconds[key] += round(found.seconds)
        self.wrong += bool(found.wrong)
        ended = "WRONG" if found.wrong else "ok"
        say(f"{self.elapsed_s:6.0f} s  {ended:5} {environment} {found.kind} {' '.join(found.at)}")
        for line in found.wrong:
            say(f"        {line[:400]}")

    def say(self) -> None:
        """Print the figures."""
        for environment, calls in self.calls.items():
            say(f"{environment}: {calls} calls in a first up")
        for key, runs in self.runs.items():
            say(f"{key[0]} {key[1]}: {self.places[key]} places in {runs} runs, {self.seconds[key]} s")
        for one in self.unreached:
            say(f"not reached: {one}")
        say(
            f"{self.wrong} of {self.runs.total()} runs were not finished; {self.elapsed_s:.0f} s,"
            f" at most {self.largest_mib} MiB a process"
        )


def _collect(queue: Any, workers: list[Any], tally: Tally) -> bool:
    """Count the results of the workers until they end; False if one has crashed."""
    left = len(workers)
    while left:
        try:
            item = queue.get(timeout=5)
        except Empty:
            if not any(worker.is_alive() for worker in workers):
                say("a process of the sweep has died")
                return False
            continue
        if isinstance(item, int):
            left -= 1
            tally.largest_mib = max(tally.largest_mib, item)
        elif len(item) == 3:
            environment, tally.calls[environment], unreached = item
            tally.unreached += [f"{environment} {one}" for one in unreached]
        else:
            tally.add(*item)
    return True


if __name__ == "__main__":
    sys.exit(main())
