"""How GPUs can be divided (Multi-Instance GPU): profiles, and which of them fit on one GPU together.

A GPU has seven compute slices and eight memory slices. An instance of a profile takes so many of each,
and may begin at certain memory slices alone: what fits is therefore not a matter of sums. 4g and 4g have
eight memory slices in all, and there is one place for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gpufleet.catalog.models import Fact
from gpufleet.catalog.store import read_entries

COMPUTE_SLICES = 7
"""Of every GPU in the table (NVIDIA MIG User Guide, Concepts)."""


class MigProfile(Fact):
    """A GPU instance profile. `id` is nvidia-smi's; `memory_gib` is the figure in its name.

    An instance takes `memory_slices` from one of `starts` on (`nvidia-smi mig -lgipp`), and at most
    `most` of them fit on a GPU that has no other instances.
    """

    name: str
    id: int
    compute_slices: int
    memory_slices: int
    memory_gib: int
    starts: tuple[int, ...]
    most: int


class MigGpu(Fact):
    """The profiles of a GPU with so much memory (GB, as it is sold); `unverified` names doubtful fields."""

    gpu: str
    memory_gb: int
    profiles: tuple[MigProfile, ...]
    source: str
    unverified: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def profile(self, name: str) -> MigProfile | None:
        """The profile of that name, None if the GPU has none."""
        return next((item for item in self.profiles if item.name == name), None)

    def holds(self, layout: Mapping[str, int]) -> bool:
        """Whether instances of `layout` (profile -> how many) fit on one GPU together."""
        chosen: list[MigProfile] = []
        for name, count in layout.items():
            found = self.profile(name)
            if found is None or count > found.most:
                return False
            chosen += [found] * count
        if sum(item.compute_slices for item in chosen) > COMPUTE_SLICES:
            return False
        return _places(tuple(sorted(chosen, key=lambda item: (-item.memory_slices, item.id))), 0)


def _places(todo: tuple[MigProfile, ...], taken: int) -> bool:
    """Whether all of `todo` find a place beside the memory slices in the bit mask `taken`."""
    if not todo:
        return True
    first, rest = todo[0], todo[1:]
    for start in first.starts:
        mask = ((1 << first.memory_slices) - 1) << start
        if not taken & mask and _places(rest, taken | mask):
            return True
    return False


@cache
def mig_gpus() -> tuple[MigGpu, ...]:
    """Every GPU with MIG that a source was read for, one entry for each memory size."""
    return read_entries(Path(__file__).parent / "data" / "mig.json", MigGpu, "mig")


def mig_of(gpu: str) -> tuple[MigGpu, ...]:
    """The memory sizes of `gpu` (`H100`) with their profiles; empty for a GPU without MIG."""
    return tuple(item for item in mig_gpus() if item.gpu == gpu)
