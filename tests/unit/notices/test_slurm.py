"""Slurm's commands: what is asked, and what is made of the answers."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpufleet.notices.scheduler import Instance, RunningJob, SchedulerError
from gpufleet.notices.slurm import Slurm, expand, run_command
from tests.unit.notices.fake_slurm import FakeSlurm


@pytest.fixture
def fake(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path).create(
        {"gpu-1": "10.0.0.1", "gpu-2": "ip-10-0-0-2", "gpu-3": "gpu-3"}, {"7": ["gpu-1", "gpu-2"]}
    )


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        ("", []),
        ("a", ["a"]),
        ("a,b[1-2]", ["a", "b1", "b2"]),
        ("a[1,3-4,008-010]", ["a1", "a3", "a4", "a008", "a009", "a010"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("a[1-2]-x,b", ["a1-x", "a2-x", "b"]),
    ],
)
def test_host_lists_are_expanded(names: str, hosts: list[str]) -> None:
    assert expand(names) == hosts


def test_nodes_are_found_by_tag_address_and_host_name(fake: FakeSlurm) -> None:
    found = Slurm(run=fake.run).nodes(
        [
            Instance("i-1", "10.0.0.1", "ip-10-0-0-1.ec2.internal"),
            Instance("i-2", "10.0.0.2", "ip-10-0-0-2.ec2.internal"),
            Instance("i-3", "10.0.0.9", "", node="gpu-3"),
            Instance("i-4", "10.0.0.4", "ip-10-0-0-4.ec2.internal", node="gpu-9"),
        ]
    )
    assert found == {"i-1": "gpu-1", "i-2": "gpu-2", "i-3": "gpu-3"}


def test_one_command_drains_all_nodes(fake: FakeSlurm) -> None:
    commands: list[list[str]] = []

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        commands.append(list(command))
        return fake.run(command)

    assert Slurm(run=run).drain({"gpu-1": None, "gpu-2": 1.0}, "spot") == {}
    assert commands[-1] == [
        "scontrol",
        "update",
        "nodename=gpu-1,gpu-2",
        "state=drain",
        "reason=gpufleet interruption: spot",
    ]
    assert [command[0] for command in commands] == ["sinfo", "scontrol"]


@pytest.mark.parametrize(("target", "options"), [("batch", ["--batch"]), ("steps", []), ("full", ["--full"])])
def test_signal_goes_to_what_the_settings_name(fake: FakeSlurm, target: str, options: list[str]) -> None:
    commands: list[list[str]] = []

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        commands.append(list(command))
        return fake.run(command)

    slurm = Slurm(run=run, signal_to=target)  # type: ignore[arg-type]
    assert slurm.signal([RunningJob("7", "0", frozenset({"gpu-1"}))], 0) == {}
    assert commands == [["scancel", "--signal=USR1", *options, "7"]]


def test_job_that_ended_before_the_signal_is_no_failure(fake: FakeSlurm) -> None:
    jobs = [RunningJob("7", "0", frozenset({"gpu-1"})), RunningJob("8", "0", frozenset({"gpu-1"}))]
    assert Slurm(run=fake.run).signal(jobs, 0) == {}
    assert fake.logged("signal") == ["7"]


def test_later_run_of_a_job_is_not_requeued_again(fake: FakeSlurm) -> None:
    slurm = Slurm(run=fake.run)
    (job,) = slurm.jobs(["gpu-1"])
    with fake.state() as state:
        state["jobs"]["7"] |= {"run": 1, "nodes": ["gpu-3"]}
    assert slurm.move(job, ["gpu-1"]) == "finished"
    assert slurm.acknowledged({"7": (job, 0.0)}) == {"7": "finished"}
    assert fake.logged("requeue") == []


def test_failed_command_is_an_error_with_its_message() -> None:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(list(command), 1, "", "slurm_load_node error: no contact")

    slurm = Slurm(run=run)
    with pytest.raises(SchedulerError, match="no contact"):
        slurm.jobs(["gpu-1"])
    with pytest.raises(SchedulerError, match="no contact"):
        slurm.drain({"gpu-1": None}, "spot")


def test_missing_command_is_an_error() -> None:
    with pytest.raises(SchedulerError, match="no-such-program"):
        run_command(["no-such-program"])
