"""`make mutate`: weaken protections of components, change conditions of `plan`, `checks` and `pricing`.

Prints the killers and the kill rates. Exits with 1 if a weakened component survives without a recorded
reason (`accepted`), or if fewer than 95 of 100 changed conditions are killed.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter

from rich.console import Console

from tests.mutation import conditions
from tests.mutation.accepted import ACCEPTED, reason
from tests.mutation.curated import CURATED
from tests.mutation.operators import Mutant
from tests.mutation.protective import NAMES
from tests.mutation.run import Outcome, all_mutants, run


def main() -> int:
    """Run the mutants; see the module."""
    parser = argparse.ArgumentParser(prog="tests.mutation")
    parser.add_argument("--all", action="store_true", help="weaken what is not called protective too")
    parser.add_argument("--only", default="", help="a pattern of mutants' names")
    parser.add_argument("--curated", action="store_true", help="only what `make test` asks rules about")
    parser.add_argument("--rules-only", action="store_true", help="ask no unit test")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--conditions",
        type=int,
        metavar="N",
        help="change N conditions of plan, checks, pricing and security rules",
    )
    parser.add_argument("--seed", type=int, default=1, help="which conditions are changed")
    parser.add_argument(
        "--tests", nargs="*", default=[], metavar="FILE", help="the tests that judge conditions; default: all"
    )
    options = parser.parse_args()
    if options.conditions is not None:
        return _conditions(options)
    mutants = [
        each
        for each in all_mutants()
        if (each.plain in CURATED if options.curated else options.all or each.subject in NAMES)
        and re.search(options.only, each.name)
    ]
    console = Console(width=160, soft_wrap=True, highlight=False)
    started = time.monotonic()
    outcomes: list[tuple[Mutant, Outcome]] = []
    for mutant, outcome in run(mutants, workers=options.workers, tests=not options.rules_only):
        outcomes.append((mutant, outcome))
        console.print(f"{outcome.by:8} {mutant.name}  [{outcome.who}]", markup=False)
    whole = not (options.only or options.curated or options.rules_only)
    return _summary(console, outcomes, time.monotonic() - started, whole=whole)


def _conditions(options: argparse.Namespace) -> int:
    """Change conditions at random."""
    console = Console(width=160, soft_wrap=True, highlight=False)
    survivors, count = 0, 0
    for mutant, outcome in conditions.run(
        options.conditions, options.seed, options.workers, options.only, options.tests
    ):
        why = reason(mutant.plain) if outcome.by == "nothing" else ""
        survivors += outcome.by == "nothing" and not why
        count += 1
        console.print(f"{outcome.by:8} {mutant.name}  [{outcome.who or why}]", markup=False)
    console.print(f"{count - survivors} of {count} killed, or with a reason on record")
    return int(survivors * 100 > count * (100 - conditions.KILLED_OF_100))


def _summary(console: Console, outcomes: list[tuple[Mutant, Outcome]], seconds: float, *, whole: bool) -> int:
    by = Counter(outcome.by for _, outcome in outcomes)
    survivors = sorted(
        (mutant for mutant, outcome in outcomes if outcome.by == "nothing"), key=lambda each: each.name
    )
    open_ones = [mutant for mutant in survivors if not reason(mutant.plain)]
    killed = len(outcomes) - len(survivors)
    console.rule()
    for mutant in survivors:
        console.print(
            f"survived {mutant.name}: {reason(mutant.plain) or 'NO REASON ON RECORD'}", markup=False
        )
    console.print(
        f"{len(outcomes)} mutants in {seconds:.0f} s: {by['rule']} killed by a rule, {by['test']} by a test, "
        f"{by['program']} refused by the program; {len(survivors)} survived, {len(open_ones)} of them "
        "without a reason on record"
    )
    if outcomes:
        protecting = len(outcomes) - (len(survivors) - len(open_ones))
        console.print(
            f"kill rate: {killed / len(outcomes):.1%}; without those on record, {killed / protecting:.1%}"
        )
    stale = [
        pattern
        for pattern in ACCEPTED
        if whole and not any(re.fullmatch(pattern, mutant.plain) for mutant in survivors)
    ]
    for pattern in stale:
        console.print(f"out of date in tests/mutation/accepted.py: {pattern}", markup=False)
    return 1 if open_ones or stale else 0


if __name__ == "__main__":
    sys.exit(main())
