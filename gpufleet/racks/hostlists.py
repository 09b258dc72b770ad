"""Host names as ranges, as people and Slurm write them: `dgx[001-002,004]`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

Texts = TypeVar("Texts", bound=tuple[str, ...])

_NUMBERED = re.compile(r"(.*?)(\d+)([^\d]*)")


def fold_hosts(names: Iterable[str]) -> str:
    """Host names as ranges: `dgx001, dgx002, dgx004` is `dgx[001-002,004]`."""
    families: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    single: list[str] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            single.append(name)
        else:
            families[match[1], len(match[2]), match[3]].append(int(match[2]))
    folded = []
    for (prefix, width, suffix), numbers in families.items():
        runs = _runs(sorted(set(numbers)))
        texts = [str(a).zfill(width) + (f"-{str(b).zfill(width)}" if b > a else "") for a, b in runs]
        inside = ",".join(texts)
        folded.append(
            f"{prefix}{inside if len(runs) == 1 and runs[0][0] == runs[0][1] else f'[{inside}]'}{suffix}"
        )
    return ",".join(sorted(single) + folded)


def fold_equal(findings: Iterable[tuple[str, Texts]]) -> list[tuple[str, Texts]]:
    """Return each text once with the hosts that have it, as ranges.

    `findings` are hosts and texts. A host's own name in its texts counts as <host>, also in the result if
    several hosts have them.
    """
    found: dict[tuple[str, ...], dict[str, Texts]] = {}
    for host, texts in findings:
        name = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])")
        found.setdefault(tuple(name.sub("<host>", text) for text in texts), {})[host] = texts
    return [
        (fold_hosts(hosts), cast(Texts, texts) if len(hosts) > 1 else next(iter(hosts.values())))
        for texts, hosts in found.items()
    ]


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
