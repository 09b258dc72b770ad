"""GPUs of a Kubernetes rack as pods ask for them, and what teams are guaranteed of them. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpufleet.plan.models import TeamPlan

GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class GpuPool:
    """GPUs of one node group. `resource` is what a pod asks for, of which each GPU is `per_gpu`."""

    name: str
    resource: str
    per_gpu: int
    gpus: int


def resource_name(*, mig_profile: str | None, shared: bool) -> str:
    """The extended resource of a GPU, of a MIG device, or of a share of either.

    NVIDIA's device plugin names them so with MIG strategy `mixed` and `renameByDefault`: what is less than
    a GPU is never counted as one (k8s-device-plugin README, "Shared Access to GPUs").
    """
    # Of a profile with extensions (1g.10gb+me) the plugin makes a dot.
    device = f"nvidia.com/mig-{mig_profile.replace('+', '.')}" if mig_profile else GPU_RESOURCE
    return f"{device}.shared" if shared else device


def guarantees(teams: Sequence[TeamPlan], pools: Sequence[GpuPool]) -> dict[str, dict[str, int]]:
    """Team -> pool -> whole GPUs that are the team's whoever else wants them.

    A team is guaranteed what it may hold at once, or, where the teams may hold more than there is, its
    part of what there is, by the method of largest remainders. Its GPUs are spread over the pools by
    their sizes. In no pool is more guaranteed than it has.
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
    """Each pool's name once for each of its GPUs, mixed evenly."""
    total = sum(pool.gpus for pool in pools)
    used: dict[str, int] = {pool.name: 0 for pool in pools}
    for position in range(1, total + 1):
        late = max(pools, key=lambda pool: pool.gpus * position - used[pool.name] * total)
        used[late.name] += 1
        yield late.name


def thousandths(pools: Sequence[GpuPool]) -> Mapping[str, int]:
    """Resource -> thousandths of a GPU that one of it counts, rounded down.

    Where pools divide their GPUs into different numbers of shares of one name, a share counts as in the
    pool with the fewest: a team never holds more than its GPUs.
    """
    found: dict[str, int] = {}
    for pool in pools:
        found[pool.resource] = max(found.get(pool.resource, 0), 1000 // pool.per_gpu)
    return found
