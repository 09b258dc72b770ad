"""Host names as ranges, as people and Slurm write them: `dgx[001-002,004]`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

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


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
