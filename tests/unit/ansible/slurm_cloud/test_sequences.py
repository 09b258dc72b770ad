"""Random sequences of jobs, shortages, reclaimed instances, throttling, lost answers, kills and takeovers.

Whatever happens, once it stops every job ends, every node is usable again, and no instance is left.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from cloud_nodes.aws import Ec2

from gpufleet.lab.aws.faults.plan import Shortage
from tests.unit.ansible.slurm_cloud.conftest import RETRY_S, Account, Cluster, cluster_of
from tests.unit.ansible.slurm_cloud.stand_in_slurm import NODES
from tests.unit.lab.two_zones import KIND, REGION

SEQUENCES = int(os.environ.get("GPUFLEET_TEST_SEQUENCES", "30"))
STEPS = 12
PARTS = 4


class Killed(BaseException):
    """The program was killed."""


class Faulty(Ec2):
    """EC2 whose next calls fail, lose their answer, or end with the death of the program."""

    def __init__(self, real: Ec2) -> None:
        self.__dict__ = real.__dict__
        self._real = real._ec2
        self._ec2 = self
        self.next: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real: Callable[..., Any] = getattr(self._real, name)
        if name == "get_paginator":
            return real

        def call(**given: Any) -> Any:
            fault = self.next.pop(0) if self.next else ""
            if fault == "throttle":
                raise ClientError({"Error": {"Code": "RequestLimitExceeded", "Message": ""}}, name)
            if fault == "kill before":
                raise Killed
            answer = real(**given)
            if fault == "kill after":
                raise Killed
            if fault == "lost answer":
                raise ReadTimeoutError(endpoint_url="https://ec2")
            return answer

        return call


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_leaked_or_forgotten(account: Account, part: int) -> None:
    for number in range(part, SEQUENCES, PARTS):
        _sequence(account, number)


def _sequence(account: Account, number: int) -> None:
    chance = random.Random(number)
    cluster = cluster_of(account, chance.choice([("on-demand",), ("spot", "on-demand")]))
    faulty = Faulty(cluster.ec2)
    cluster.ec2 = faulty
    cluster.slurm.only_backfill = number % 2 == 1
    cluster.restart()
    jobs = 0
    for _ in range(STEPS):
        match chance.choice(
            ("job", "job", "job", "shortage", "reclaim", "fault", "fault", "slurm", "restart")
        ):
            case "job":
                jobs += 1
                cluster.slurm.submit(jobs, chance.randint(1, 4), chance.choice((30, 200, 700)))
            case "shortage":
                account.shortages = chance.choice(
                    (
                        (),
                        (Shortage(type=KIND, left=chance.randint(0, 3)),),
                        (Shortage(type=KIND, zone=f"{REGION}a", left=chance.randint(0, 2)),),
                        (Shortage(type=KIND, market="spot"),),
                    )
                )
            case "reclaim" if account.instances():
                account.reclaim(chance.choice(account.instances()).id)
            case "fault":
                faulty.next = chance.choices(
                    ("", "throttle", "kill before", "kill after", "lost answer"), k=chance.randint(1, 4)
                )
            case "slurm":
                cluster.slurm.fails = chance.randint(1, 3)
            case "restart":
                cluster.restart()
        _live(cluster, chance.choice((10, 30, 100)))
    account.shortages, faulty.next, cluster.slurm.fails = (), [], 0
    for _ in range(40):
        _live(cluster, 100, 25)
        if not cluster.slurm.jobs and not account.instances():
            break
    _live(cluster, RETRY_S, 25)
    assert not cluster.slurm.jobs, (number, cluster.slurm.jobs, cluster.states())
    assert not account.instances(), (number, cluster.states())
    assert list(cluster.states().values()) == ["idle+cloud+powered_down"] * NODES, (number, cluster.states())


def _live(cluster: Cluster, seconds: float, step: float = 10) -> None:
    """Let time pass; a program that dies or gets no answer from Slurm is over; the service starts again."""
    from cloud_nodes.slurm import SlurmError

    until = cluster.slurm.now + seconds
    while cluster.slurm.now < until:
        cluster.slurm.tick(step)
        for call in (cluster.call_resume_programs, cluster.service.run):
            try:
                call()
            except Killed:
                cluster.restart()
            except SlurmError:
                continue
