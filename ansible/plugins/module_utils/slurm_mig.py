"""MIG GPUs for Slurm: GRES types in slurm.conf, device files in gres.conf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Layouts = Sequence[Mapping[str, Any]]
"""`{nodes, gpus, profiles}` as in the inventory."""
Layout = Mapping[int, Mapping[str, int]]
"""GPU index -> profile -> number of instances, of one node."""


def divided(layouts: Layouts) -> dict[str, dict[int, dict[str, int]]]:
    """Node -> its layout, for nodes with MIG."""
    found: dict[str, dict[int, dict[str, int]]] = {}
    for item in layouts:
        profiles = {str(name): int(count) for name, count in item["profiles"].items()}
        for node in item["nodes"]:
            found.setdefault(str(node), {}).update({int(gpu): profiles for gpu in item["gpus"]})
    return found


def gres(layout: Layout, *, gpus: int, gpu_type: str) -> tuple[str, int]:
    """`Gres=` of the node and the number of GPUs and instances. Types are sorted by name."""
    counts: Counter[str] = Counter()
    for profiles in layout.values():
        counts.update(profiles)
    whole = gpus - len(layout)
    words = [f"gpu:{gpu_type}:{whole}"] if whole else []
    words += [f"gpu:{name}:{count}" for name, count in sorted(counts.items())]
    return ",".join(words), max(whole + counts.total(), 1)


def instance_lines(
    layout: Layout, reported: Sequence[Mapping[str, Any]], near: Sequence[tuple[int, int]]
) -> tuple[tuple[str, str, str], ...]:
    """`(type, files, cores)` of every instance; empty if the node does not report the expected instances."""
    there: dict[int, Counter[str]] = {}
    for item in reported:
        there.setdefault(int(item["gpu"]), Counter())[str(item["profile"])] += 1
    if there != {gpu: Counter(profiles) for gpu, profiles in layout.items()}:
        return ()
    return tuple(
        (
            str(item["profile"]),
            ",".join(map(str, item["files"])),
            f"{near[int(item['gpu'])][0]}-{near[int(item['gpu'])][1]}" if near else "",
        )
        for item in reported
    )


def names_of(names: Sequence[str], most: int) -> list[str]:
    """Host lists of at most `most` names each."""
    return [",".join(names[start : start + most]) for start in range(0, len(names), most)]
