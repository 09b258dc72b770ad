"""A first `up` that is interrupted anywhere is finished by the next one, with gpufleet's policies.

A part of `make faults`: some crashes, every action refused once, and a frequently interrupted creation.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.faults.sweep import Sweep
from tests.faults.world import World

pytestmark = pytest.mark.xdist_group("e2e-interrupted-creation")

SEED = 19
# When a bucket has no tags, and when it has no lifecycle yet.
ALWAYS = {("s3", "CreateBucket"), ("s3", "PutBucketTagging")}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    world = World(tmp_path_factory.mktemp("world"))
    yield Sweep(world, "dev")
    world.close()


def test_next_up_finishes_after_a_crash_at_any_call(sweep: Sweep) -> None:
    writes = [call for call in sweep.calls if not call.is_read]
    chosen = [call for call in writes if (call.service, call.action) in ALWAYS]
    chosen += random.Random(SEED).sample([call for call in writes if call not in chosen], 1)
    found = list(sweep.deaths(chosen, journal=False))
    assert len(found) == len(chosen)
    assert [one for one in found if one.wrong] == []


def test_next_up_finds_a_resource_whose_creation_response_was_lost(sweep: Sweep) -> None:
    # Sent again, the subnet and the route would conflict with the first ones, and the address would be new.
    once = {"ec2:CreateSubnet#3", "ec2:CreateRoute#1", "ec2:AllocateAddress#1", "ec2:CreateRouteTable#2"}
    calls = [call for call in sweep.calls if str(call) in once]
    found = list(sweep.lost(calls, len(calls)))
    assert [one for one in found if one.wrong] == []
    assert sweep.unreached == []


def test_next_up_finishes_after_a_refusal_of_any_action(sweep: Sweep) -> None:
    (found,) = sweep.kinds()
    assert found.wrong == ()
    assert {f"{call.service}:{call.action}" for call in sweep.calls} <= set(found.at)


def test_repeatedly_interrupted_creation_ends_like_an_uninterrupted_one(sweep: Sweep) -> None:
    (found,) = sweep.interrupts(SEED, gap=60)
    assert found.wrong == ()
    assert found.at
