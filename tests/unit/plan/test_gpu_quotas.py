"""Guarantees of teams: never more than there is, never more than they may hold, and fair."""

from __future__ import annotations

import random

import pytest

from gpufleet.plan.gpu_quotas import GpuPool, guarantees, thousandths


def pool(name: str, gpus: int, *, resource: str = "nvidia.com/gpu", per_gpu: int = 1) -> GpuPool:
    return GpuPool(name, resource, per_gpu, gpus)


def test_teams_that_fit_get_their_limit_as_nominal_quota():
    found = guarantees({"a": 8, "b": 4}, [pool("gpu", 16)])
    assert found == {"a": {"gpu": 8}, "b": {"gpu": 4}}


def test_teams_that_exceed_the_fleet_get_proportional_quotas():
    found = guarantees({"a": 16, "b": 8, "c": 8}, [pool("gpu", 16)])
    assert found == {"a": {"gpu": 8}, "b": {"gpu": 4}, "c": {"gpu": 4}}
    odd = guarantees({"a": 10, "b": 10, "c": 10}, [pool("gpu", 16)])
    assert sorted(item["gpu"] for item in odd.values()) == [5, 5, 6]


def test_gpus_of_a_team_are_spread_over_groups_by_size():
    pools = [pool("big", 24), pool("small", 8)]
    found = guarantees({"a": 16, "b": 16}, pools)
    assert found == {"a": {"big": 12, "small": 4}, "b": {"big": 12, "small": 4}}


def test_no_nodes_or_no_teams_give_no_quota():
    assert guarantees({"a": 8}, []) == {"a": {}}
    assert guarantees({"a": 0}, []) == {"a": {}}
    assert guarantees({}, [pool("gpu", 8)]) == {}
    assert guarantees({"a": 0}, [pool("gpu", 8)]) == {"a": {"gpu": 0}}


@pytest.mark.parametrize("seed", range(40))
def test_no_group_is_overcommitted_and_no_team_exceeds_its_limit(seed):
    draw = random.Random(seed)
    pools = [pool(f"p{n}", draw.randint(1, 40)) for n in range(draw.randint(1, 4))]
    limits = {f"t{n}": draw.randint(0, 60) for n in range(draw.randint(1, 6))}
    found = guarantees(limits, pools)
    there, asked = sum(item.gpus for item in pools), sum(limits.values())
    for each in pools:
        assert sum(found[team][each.name] for team in limits) <= each.gpus
    for team, limit in limits.items():
        own = sum(found[team].values())
        assert own <= limit
        assert abs(own - limit * min(1, there / max(asked, 1))) < 1
    assert sum(sum(item.values()) for item in found.values()) == min(there, asked)


def test_shares_with_one_name_count_as_the_largest():
    pools = [
        pool("whole", 8),
        pool("halves", 8, resource="nvidia.com/gpu.shared", per_gpu=2),
        pool("tenths", 8, resource="nvidia.com/gpu.shared", per_gpu=10),
        pool("slices", 8, resource="nvidia.com/mig-1g.10gb", per_gpu=7),
    ]
    counts = {"nvidia.com/gpu": 1000, "nvidia.com/gpu.shared": 500, "nvidia.com/mig-1g.10gb": 142}
    assert thousandths(pools) == counts
