"""Spot nodes of a group that a breach of the budget drains."""

from __future__ import annotations

import json

import boto3
import pytest

from gpufleet.lab.aws.faults.plan import Shortage
from tests.unit.ansible.slurm_cloud.conftest import GROUP, Account, Cluster, cluster_of
from tests.unit.lab.two_zones import KIND, REGION

STOPPED = "/gpufleet/atlas/prod/stopped-groups"
DRAINED = "/gpufleet/atlas/prod/drained/sweep"
SINCE = {"since": "2030-05-04T12:00:00+00:00", "sizes": [0, 0, 6]}


@pytest.fixture
def spot(account: Account) -> Cluster:
    """A cluster that buys spot first, with the records of its budget."""
    cluster = cluster_of(account, ("spot", "on-demand"), stopped=STOPPED, drained=DRAINED)
    write(STOPPED, {})
    write(DRAINED, {})
    return cluster


def write(name: str, value: dict[str, object]) -> None:
    boto3.client("ssm", region_name=REGION).put_parameter(
        Name=name, Value=json.dumps(value), Type="String", Overwrite=True
    )


def breach() -> None:
    write(STOPPED, {"groups": {GROUP: [6, 0, 0]}})
    write(DRAINED, dict(SINCE))


def resume() -> None:
    write(STOPPED, {})
    write(DRAINED, {})


def test_jobs_answer_are_queued_again_and_their_nodes_end(spot: Cluster) -> None:
    spot.slurm.submit(1, nodes=2, seconds=10_000)
    spot.slurm.submit(2, nodes=1, seconds=10_000)
    spot.live(100)
    assert len(spot.account.instances()) == 3
    breach()
    spot.live(10)
    assert spot.slurm.signalled == [1, 2]
    assert len(spot.account.instances()) == 3
    spot.slurm.comments[1] = f"gpufleet:checkpointed:{spot.slurm.now:.0f}"
    spot.live(30)
    # The other job has its time still.
    assert spot.slurm.requeued == [1]
    assert len(spot.account.instances()) == 1
    spot.live(70)
    assert spot.slurm.requeued == [1, 2]
    spot.live(100)
    assert not spot.account.instances()
    assert spot.slurm.signalled == [1, 2]


def test_nothing_is_launched_until_the_budget_is_resumed_and_then_jobs_run(spot: Cluster) -> None:
    spot.slurm.submit(1, nodes=1, seconds=500)
    spot.live(100)
    breach()
    spot.live(400)
    assert not spot.account.instances()
    assert spot.slurm.ended == set()
    resume()
    spot.live(1800)
    assert spot.slurm.ended == {1}
    assert not [name for name, node in spot.slurm.nodes.items() if "drain" in node.flags]


def test_on_demand_nodes_of_the_same_group_stay(spot: Cluster) -> None:
    spot.account.shortages = (Shortage(type=KIND, market="spot"),)
    spot.slurm.submit(1, nodes=1, seconds=10_000)
    spot.live(60)
    spot.account.shortages = ()
    spot.slurm.submit(2, nodes=1, seconds=10_000)
    spot.live(100)
    breach()
    spot.live(300)
    (left,) = spot.account.instances()
    assert not left.lifecycle
    assert spot.slurm.signalled == [2]
    assert spot.slurm.on(1)


def test_budget_that_is_resumed_before_the_end_gives_nodes_back(spot: Cluster) -> None:
    spot.slurm.submit(1, nodes=1, seconds=300)
    spot.live(100)
    breach()
    spot.live(20)
    (node,) = spot.slurm.on(1)
    assert "drain" in spot.slurm.nodes[node].flags
    resume()
    spot.live(20)
    assert "drain" not in spot.slurm.nodes[node].flags
    spot.live(300)
    assert (spot.slurm.ended, spot.slurm.requeued) == ({1}, [])


def test_program_that_is_killed_before_the_signal_signals_after_its_start(spot: Cluster) -> None:
    spot.slurm.submit(1, nodes=1, seconds=10_000)
    spot.live(100)
    breach()
    spot.slurm.dies_before = "scancel"
    with pytest.raises(SystemExit):
        spot.service.run()
    assert spot.slurm.signalled == []
    spot.restart()
    spot.live(10)
    assert spot.slurm.signalled == [1]
    spot.live(300)
    assert not spot.account.instances()


def test_job_that_cannot_be_queued_again_ends_with_its_node(spot: Cluster) -> None:
    spot.slurm.submit(1, nodes=1, seconds=10_000)
    spot.slurm.stubborn.add(1)
    spot.live(100)
    breach()
    spot.live(130)
    assert len(spot.account.instances()) == 1
    spot.live(120)
    assert not spot.account.instances()


def test_node_that_another_user_drained_stays_drained(spot: Cluster) -> None:
    spot.slurm.submit(1, nodes=1, seconds=10_000)
    spot.live(100)
    (node,) = spot.slurm.on(1)
    spot.slurm.nodes[node].flags.add("drain")
    spot.slurm.nodes[node].reason = "fan broken"
    breach()
    spot.live(300)
    assert spot.slurm.nodes[node].reason == "fan broken"
    assert (spot.slurm.signalled, len(spot.account.instances())) == ([], 1)
