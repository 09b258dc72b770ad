"""Partitions of GPUs (Multi-Instance GPU): profiles, and which of them fit on one GPU together.

A GPU has seven compute slices and eight memory slices. An instance of a profile uses some of each, and can
start only at certain memory slices, so sums do not decide what fits: 4g and 4g have eight memory slices
together, but only one of them fits.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gpufleet.catalog.models import Fact
from gpufleet.catalog.store import read_entries

COMPUTE_SLICES = 7
"""For every GPU in the table (NVIDIA MIG User Guide, Concepts)."""


class MigProfile(Fact):
    """A GPU instance profile. `id` is nvidia-smi's; `memory_gib` is the figure in its name.

    An instance uses `memory_slices` from one of `starts` (`nvidia-smi mig -lgipp`), and at most `most` of
    them fit on a GPU without other instances.
    """

    name: str
    id: int
    compute_slices: int
    memory_slices: int
    memory_gib: int
    starts: tuple[int, ...]
    most: int


class MigGpu(Fact):
    """The profiles of a GPU with this memory (GB, as sold); `unverified` lists uncertain fields."""

    gpu: str
    memory_gb: int
    profiles: tuple[MigProfile, ...]
    source: str
    unverified: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def profile(self, name: str) -> MigProfile | None:
        """Return the profile of that name, None if the GPU has none."""
        return next((item for item in self.profiles if item.name == name), None)

    def holds(self, layout: Mapping[str, int]) -> bool:
        """Return whether instances of `layout` (profile -> count) fit on one GPU together."""
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
    """Return whether all of `todo` fit beside the memory slices in the bit mask `taken`."""
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
    """Return every GPU with MIG that has a source, one entry per memory size."""
    return read_entries(Path(__file__).parent / "data" / "mig.json", MigGpu, "mig")


def mig_of(gpu: str | None) -> tuple[MigGpu, ...]:
    """Return the memory sizes of `gpu` (`H100`) with their profiles; empty for None or without MIG."""
    return tuple(item for item in mig_gpus() if item.gpu == gpu)
