"""A first `up` that breaks off anywhere is finished by the next one, under our own policies.

A part of `make faults`: some deaths, every action refused once, and a creation that is often interrupted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.faults.sweep import Sweep
from tests.faults.world import World

pytestmark = pytest.mark.xdist_group("e2e-interrupted-creation")

SEED = 19
# Where a bucket has no tags, and where it has no lifecycle yet.
ALWAYS = {("s3", "CreateBucket"), ("s3", "PutBucketTagging")}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    world = World(tmp_path_factory.mktemp("world"))
    yield Sweep(world, "dev")
    world.close()


def test_a_death_after_a_call_is_finished_by_the_next_up(sweep: Sweep) -> None:
    writes = [call for call in sweep.calls if not call.is_read]
    chosen = [call for call in writes if (call.service, call.action) in ALWAYS]
    chosen += random.Random(SEED).sample([call for call in writes if call not in chosen], 1)
    found = list(sweep.deaths(chosen, journal=False))
    assert len(found) == len(chosen)
    assert [one for one in found if one.wrong] == []


def test_a_creation_whose_answer_is_lost_is_found_by_the_next_up(sweep: Sweep) -> None:
    # Sent again, the subnet and the route conflict with the first ones, and the address is a second one.
    once = {"ec2:CreateSubnet#3", "ec2:CreateRoute#1", "ec2:AllocateAddress#1", "ec2:CreateRouteTable#2"}
    calls = [call for call in sweep.calls if str(call) in once]
    found = list(sweep.lost(calls, len(calls)))
    assert [one for one in found if one.wrong] == []
    assert sweep.unreached == []


def test_every_action_that_is_refused_once_is_made_up_for(sweep: Sweep) -> None:
    (found,) = sweep.kinds()
    assert found.wrong == ()
    assert {f"{call.service}:{call.action}" for call in sweep.calls} <= set(found.at)


def test_a_creation_that_is_interrupted_again_and_again_ends_as_one_that_is_not(sweep: Sweep) -> None:
    (found,) = sweep.interrupts(SEED, gap=60)
    assert found.wrong == ()
    assert found.at
