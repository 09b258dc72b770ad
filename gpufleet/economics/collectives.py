"""The time of a collective operation by its bus bandwidth.

Definitions of nccl-tests (doc/PERFORMANCE.md): algorithm bandwidth = size / time, bus bandwidth = algorithm
bandwidth x a factor of the operation, so that it can be compared with the bandwidth of the hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from msgspec import Struct

from gpufleet.errors import InputError

Collective = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce"]
COLLECTIVES: tuple[Collective, ...] = get_args(Collective)

_FACTORS: dict[Collective, Callable[[int], float]] = {
    "all-reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all-gather": lambda ranks: (ranks - 1) / ranks,
    "reduce-scatter": lambda ranks: (ranks - 1) / ranks,
    "all-to-all": lambda ranks: (ranks - 1) / ranks,
    "broadcast": lambda ranks: 1.0,
    "reduce": lambda ranks: 1.0,
}


class CollectiveTime(Struct, frozen=True):
    """A collective operation on `bytes` bytes. Times are seconds, bandwidths bytes per second."""

    collective: Collective
    ranks: int
    bytes: float
    factor: float
    busbw_bytes_s: float
    algbw_bytes_s: float
    time_s: float


def bus_factor(collective: Collective, ranks: int) -> float:
    """Return bus bandwidth / algorithm bandwidth. Raises InputError for fewer than two ranks."""
    if ranks < 2:
        raise InputError(
            f"{ranks} ranks: a collective operation has at least two", remedy="write --ranks 16 or the like"
        )
    return _FACTORS[collective](ranks)


def collective_time(
    ranks: int, size_bytes: float, busbw_bytes_s: float, collective: Collective = "all-reduce"
) -> CollectiveTime:
    """Return the time that an operation takes with a bus bandwidth. Latency is not counted.

    Example: 16 ranks, 16 GiB at 487.09 GB/s take 66.1 ms (2 x p5.48xlarge).
    """
    factor = bus_factor(collective, ranks)
    algorithm = busbw_bytes_s / factor
    return CollectiveTime(
        collective, ranks, size_bytes, factor, busbw_bytes_s, algorithm, size_bytes / algorithm
    )
