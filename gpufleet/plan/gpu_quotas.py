"""GPU resources of a Kubernetes rack, and the GPUs guaranteed to teams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpufleet.plan.models import TeamPlan


@dataclass(frozen=True, slots=True)
class GpuPool:
    """GPUs of one node group. Pods request `resource`; each GPU provides `per_gpu` of it."""

    name: str
    resource: str
    per_gpu: int
    gpus: int


def guarantees(teams: Sequence[TeamPlan], pools: Sequence[GpuPool]) -> dict[str, dict[str, int]]:
    """Return team -> pool -> whole GPUs guaranteed to the team.

    A team is guaranteed its quota, or its share of all GPUs if the quotas exceed them (largest remainder
    method). Its GPUs are distributed over the pools by size, never more than a pool has.
    """
    found = {team.name: {pool.name: 0 for pool in pools} for team in teams}
    units = _interleaved(pools)
    for team, share in _shares(teams, sum(pool.gpus for pool in pools)):
        for _ in range(share):
            found[team.name][next(units)] += 1
    return found


def _shares(teams: Sequence[TeamPlan], there: int) -> Iterator[tuple[TeamPlan, int]]:
    asked = sum(team.gpus for team in teams)
    if asked <= there:
        yield from ((team, team.gpus) for team in teams)
        return
    shares = [team.gpus * there // asked for team in teams]
    rest = [team.gpus * there % asked for team in teams]
    order = sorted(range(len(teams)), key=lambda index: (-rest[index], index))
    for index in order[: there - sum(shares)]:
        shares[index] += 1
    yield from zip(teams, shares, strict=True)


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
