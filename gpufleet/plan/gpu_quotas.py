"""GPU resources of Kubernetes nodes, and the devices guaranteed to teams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct


class GpuPool(Struct, frozen=True):
    """GPUs (or Neuron devices) of one node group. Pods request `resource`; each provides `per_gpu` of it."""

    name: str
    resource: str
    per_gpu: int
    gpus: int


def guarantees(limits: Mapping[str, int], pools: Sequence[GpuPool]) -> dict[str, dict[str, int]]:
    """Return team -> pool -> whole GPUs guaranteed to the team, from the limit of each team.

    A team is guaranteed its limit, or its share of all GPUs if the limits exceed them (largest remainder
    method). Its GPUs are distributed over the pools by size, never more than a pool has.
    """
    found = {team: {pool.name: 0 for pool in pools} for team in limits}
    units = _interleaved(pools)
    for team, share in _shares(limits, sum(pool.gpus for pool in pools)):
        for _ in range(share):
            found[team][next(units)] += 1
    return found


def _shares(limits: Mapping[str, int], there: int) -> Iterator[tuple[str, int]]:
    asked = sum(limits.values())
    if asked <= there:
        yield from limits.items()
        return
    shares = [gpus * there // asked for gpus in limits.values()]
    rest = [gpus * there % asked for gpus in limits.values()]
    order = sorted(range(len(shares)), key=lambda index: (-rest[index], index))
    for index in order[: there - sum(shares)]:
        shares[index] += 1
    yield from zip(limits, shares, strict=True)


def _interleaved(pools: Sequence[GpuPool]) -> Iterator[str]:
    """Yield the name of each pool once per GPU, evenly mixed."""
    total = sum(pool.gpus for pool in pools)
    used: dict[str, int] = {pool.name: 0 for pool in pools}
    for position in range(1, total + 1):
        late = max(pools, key=lambda pool: pool.gpus * position - used[pool.name] * total)
        used[late.name] += 1
        yield late.name


def thousandths(pools: Sequence[GpuPool]) -> Mapping[str, int]:
    """Return resource -> thousandths of a GPU per unit, rounded down.

    If pools divide their GPUs into different numbers of shares with one name, the pool with the fewest
    applies, so that a team never exceeds its quota.
    """
    found: dict[str, int] = {}
    for pool in pools:
        found[pool.resource] = max(found.get(pool.resource, 0), 1000 // pool.per_gpu)
    return found
