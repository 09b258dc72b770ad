"""Slurm's queue as the rules of bursts read it, and what they tell Slurm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest
from cloud_nodes import main as program
from cloud_nodes.bursts import NOTES_OF_A_LOOK
from cloud_nodes.passes import BURST_S, Passes
from cloud_nodes.settings import Burst, BurstGroup, Settings, read_settings
from cloud_nodes.slurm import Slurm, SlurmError
from cloud_nodes.waiting import _FIELDS, NodeUse, Queue

from tests.unit.ansible.slurm_cloud.conftest import GROUP, RETRY_S, Account, Cluster, cluster_of
from tests.unit.ansible.slurm_cloud.stand_in_slurm import NODES, PREFIX
from tests.unit.lab.two_zones import REGION

PARTITION = PREFIX.removesuffix("-")
STOPPED = "/gpufleet/atlas/prod/stopped-groups"
RULES = Burst(
    ("research",),
    ("gpu",),
    1800,
    1200,
    600,
    Decimal(500),
    (BurstGroup(PARTITION, NODES, 192, 2_000_000, 8, "h100", Decimal(40)),),
)
# What squeue of Slurm 22.05 says of a waiting job.
WAITING = {
    "JobArrayID": "7",
    "StateCompact": "PD",
    "Account": "research",
    "Partition": "gpu",
    "Reason": "Resources",
    "EligibleTime": "1799990000",
    "StartTime": "N/A",
    "EndTime": "N/A",
    "Deadline": "N/A",
    "TimeLimit": "1:00:00",
    "NumNodes": "2",
    "tres-alloc": "cpu=2,mem=1000M,node=2,billing=2,gres/gpu=16",
    "tres-per-node": "gres:gpu:8",
    "tres-per-job": "N/A",
    "tres-per-task": "N/A",
    "tres-per-socket": "N/A",
    "Feature": "(null)",
    "Reservation": "(null)",
    "ReqNodes": "",
    "HetJobID": "N/A",
    "Comment": "(null)",
    "admin_comment": "",
}


@dataclass
class Commands:
    """The queue and the accounting of a Slurm: squeue's fields of each job, and sacct's lines."""

    jobs: dict[str, dict[str, str]] = field(default_factory=dict)
    used: str = ""
    asked: list[list[str]] = field(default_factory=list)
    updates: list[list[str]] = field(default_factory=list)

    def add(self, number: str, **changes: str) -> None:
        self.jobs[number] = {**WAITING, "JobArrayID": number, **changes}

    def run(self, words: Sequence[str]) -> str:
        """Answer a command."""
        self.asked.append(list(words))
        if "squeue" in words:
            assert set(WAITING) == {name for name, _ in _FIELDS}
            return "".join(
                "".join(f"{job[name]:<{width}}" for name, width in _FIELDS) + "\n"
                for job in self.jobs.values()
            )
        if "sacct" in words:
            return self.used
        assert words[:2] == ["scontrol", "update"]
        given = dict(word.split("=", 1) for word in words[2:])
        if given["jobid"] not in self.jobs:
            raise SlurmError("scontrol update: Invalid job id specified")
        self.updates.append(list(words[2:]))
        job = self.jobs[given["jobid"]]
        job["Partition"] = given.get("partition", job["Partition"])
        job["admin_comment"] = given.get("admincomment", job["admin_comment"])
        return ""


@dataclass
class World:
    """A cluster with the rules of bursts, and its queue."""

    cluster: Cluster
    commands: Commands
    passes: Passes

    def look(self) -> None:
        self.cluster.slurm.now += BURST_S
        self.passes.burst()


@pytest.fixture
def world(account: Account) -> World:
    cluster = cluster_of(account, stopped=STOPPED)
    boto3.client("ssm", region_name=REGION).put_parameter(Name=STOPPED, Value="{}", Type="String")
    (site,) = cluster.settings.sites
    settings = Settings((replace(site, burst=RULES),), cluster.settings.retry_s)
    commands = Commands()
    passes = Passes(
        settings,
        Slurm(cluster.slurm.run),
        queue=Queue(commands.run),
        connect=lambda _: cluster.ec2,
        clock=lambda: cluster.slurm.now,
    )
    return World(cluster, commands, passes)


def test_waiting_job_gets_the_partition_once_and_the_reason(world: World) -> None:
    world.commands.add("7")
    world.look()
    note = (
        f"gpufleet burst: cloud: waited 167 min; {PARTITION} costs up to 120.00 of 500.00 USD left this month"
    )
    assert world.commands.updates == [["jobid=7", f"partition=gpu,{PARTITION}", f"admincomment={note}"]]
    world.look()
    assert len(world.commands.updates) == 1
    assert world.commands.jobs["7"]["Partition"] == f"gpu,{PARTITION}"


def test_queue_is_looked_at_every_half_minute_only(world: World) -> None:
    world.look()
    asked = len(world.commands.asked)
    world.cluster.slurm.now += BURST_S - 1
    world.passes.burst()
    assert len(world.commands.asked) == asked == 1


def test_what_ran_this_month_counts_each_attempt_with_its_idle_end(world: World) -> None:
    world.commands.add("7")
    # (32,400 + 1,200 + 2 x 600 s) x 40 USD/h of one node: 386.67 USD, each attempt rounded up to cents.
    lines = [
        f"{PARTITION}|1|32400",
        f"{PARTITION}|1|1200",
        "gpu|8|90000",
        f"{PARTITION}|4|0",
        f"{PARTITION}|1|",
    ]
    world.commands.used = "\n".join(lines)
    world.look()
    (sacct,) = [words for words in world.commands.asked if "sacct" in words]
    assert sacct[-2:] == ["--starttime=2027-01-01T00:00:00", "--format=Partition,NNodes,ElapsedRaw"]
    assert f"--partition={PARTITION}" in sacct and "--duplicates" in sacct and "--truncate" in sacct
    why = "costs up to 120.00 USD, and 113.33 of 500.00 are left this month"
    assert world.commands.updates == [["jobid=7", f"admincomment=gpufleet burst: budget: {why}"]]
    world.look()
    assert len(world.commands.updates) == 1


def test_breach_of_the_budget_takes_the_partition_back_until_it_is_resumed(world: World) -> None:
    world.commands.add("7")
    world.look()
    ssm = boto3.client("ssm", region_name=REGION)
    ssm.put_parameter(Name=STOPPED, Value=json.dumps({"groups": {GROUP: [6, 0, 0]}}), Overwrite=True)
    world.look()
    assert world.commands.updates[-1] == [
        "jobid=7",
        "partition=gpu",
        "admincomment=gpufleet burst: stopped: the budget is spent: `gpufleet budget resume`",
    ]
    ssm.put_parameter(Name=STOPPED, Value="{}", Overwrite=True)
    world.look()
    assert world.commands.updates[-1][:2] == ["jobid=7", f"partition=gpu,{PARTITION}"]


def test_comment_of_the_site_stays_and_a_job_that_ended_stops_no_other(world: World) -> None:
    world.commands.add("6", admin_comment="asked by the dean")
    world.commands.add("8")
    world.commands.add("9")
    # squeue lists it, and scontrol knows it no more.
    world.commands.jobs["8"]["JobArrayID"] = "88"
    world.look()
    assert [update[0] for update in world.commands.updates] == ["jobid=6", "jobid=9"]
    assert world.commands.updates[0] == ["jobid=6", f"partition=gpu,{PARTITION}"]


def test_nodes_that_are_busy_drained_or_down_are_not_free(world: World) -> None:
    slurm = world.cluster.slurm
    for number, (state, flags) in enumerate(
        [("allocated", set()), ("down", {"powered_down"}), ("idle", {"drain"}), ("idle", {"powering_down"})],
        1,
    ):
        slurm.nodes[f"{PREFIX}{number}"].state = state
        slurm.nodes[f"{PREFIX}{number}"].flags = {"cloud", *flags}
    world.commands.add("7", NumNodes="3")
    world.look()
    assert world.commands.updates == [
        ["jobid=7", f"admincomment=gpufleet burst: free: needs 3 free nodes, and {PARTITION} has 2"]
    ]
    world.commands.add("7", NumNodes="2")
    world.look()
    assert world.commands.updates[-1][1] == f"partition=gpu,{PARTITION}"


def test_long_queue_is_explained_in_several_looks_and_no_array_is_split(world: World) -> None:
    for number in range(NOTES_OF_A_LOOK + 1):
        world.commands.add(str(number), NumNodes="7")
    world.commands.add("99_1", NumNodes="7")
    world.look()
    assert len(world.commands.updates) == NOTES_OF_A_LOOK
    world.look()
    world.look()
    assert len(world.commands.updates) == NOTES_OF_A_LOOK + 1
    assert world.commands.jobs["99_1"]["admin_comment"] == ""
    world.commands.add("99_2", NumNodes="2")
    world.look()
    assert world.commands.updates[-1][:2] == ["jobid=99_2", f"partition=gpu,{PARTITION}"]


def test_silent_slurm_or_aws_changes_nothing_and_the_next_look_goes_on(world: World) -> None:
    world.commands.add("7")
    world.cluster.slurm.fails = 1
    with pytest.raises(SlurmError):
        world.look()
    ssm = boto3.client("ssm", region_name=REGION)
    ssm.delete_parameter(Name=STOPPED)
    world.look()
    assert world.commands.updates == []
    ssm.put_parameter(Name=STOPPED, Value="{}", Type="String")
    world.look()
    assert len(world.commands.updates) == 1


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, {"id": "7", "nodes": 2, "cpus": 2, "memory_mib": 1000, "gpus": 16, "limit_s": 3600.0}),
        ({"JobArrayID": "12_3", "NumNodes": "2-4"}, {"id": "12_3", "nodes": 2}),
        ({"TimeLimit": "1-02:03:04"}, {"limit_s": 93_784.0}),
        ({"TimeLimit": "5:00"}, {"limit_s": 300.0}),
        ({"TimeLimit": "UNLIMITED"}, {"limit_s": None}),
        ({"TimeLimit": "Partition_Limit"}, {"limit_s": None}),
        (
            {"StartTime": "1800000500", "Deadline": "1800009000"},
            {"expected": 1.8000005e9, "deadline": 1.800009e9},
        ),
        ({"EligibleTime": "N/A"}, {"eligible": float("inf")}),
        ({"tres-alloc": "cpu=2,mem=1.50G,node=1"}, {"memory_mib": 1536, "gpus": 0}),
        ({"tres-per-node": "gres:gpu:h100:8"}, {"gpu_types": frozenset({"h100"})}),
        ({"tres-per-node": "N/A", "tres-per-job": "gres/gpu:l40s:4"}, {"gpu_types": frozenset({"l40s"})}),
        (
            {},
            {
                "gpu_types": frozenset(),
                "bound_by": "",
                "added": (),
                "state": "PD",
                "running": False,
                "comment": "",
                "note": "",
            },
        ),
        ({"Feature": "ib", "Reservation": "night"}, {"bound_by": "a constraint and a reservation"}),
        ({"ReqNodes": "dgx01"}, {"bound_by": "a list of nodes"}),
        ({"HetJobID": "7"}, {"bound_by": "the other parts of its heterogeneous job"}),
        ({"HetJobID": "0"}, {"bound_by": ""}),
        (
            {"StateCompact": "R", "EndTime": "1800001000", "StartTime": "1799999000"},
            {"state": "R", "running": True, "ends": 1.800001e9, "expected": None},
        ),
        (
            {"Partition": f"{PARTITION},gpu", "admin_comment": "gpufleet burst: cloud: waited"},
            {"partitions": (PARTITION, "gpu"), "added": (PARTITION,)},
        ),
        ({"Partition": PARTITION, "admin_comment": "gpufleet burst: budget: spent"}, {"added": ()}),
    ],
)
def test_fields_of_squeue_are_read(fields: dict[str, str], wanted: dict[str, Any]) -> None:
    commands = Commands()
    commands.add("7", **fields)
    (found,) = Queue(commands.run).jobs([PARTITION])
    assert {name: getattr(found, name) for name in wanted} == wanted


def test_job_gets_the_partition_of_the_first_site_that_allows_it(world: World) -> None:
    (site,) = world.passes._settings.sites
    poor = replace(RULES, monthly_usd=Decimal(1), groups=(replace(RULES.groups[0], partition="usw2-a"),))
    world.passes._settings = Settings((replace(site, site="usw2", burst=poor), site), RETRY_S)
    world.commands.add("7")
    world.commands.add("8", Account="b")
    world.look()
    assert [update[:2] for update in world.commands.updates] == [["jobid=7", f"partition=gpu,{PARTITION}"]]
    asked = [words for words in world.commands.asked if "squeue" in words]
    assert len(asked) == 1
    # The other site leaves it alone, and the comment stays.
    world.look()
    assert len(world.commands.updates) == 1


def test_sacct_is_read() -> None:
    commands = Commands(used=f"{PARTITION}|2|60\n")
    assert Queue(commands.run).used([PARTITION], 0.0) == [NodeUse(PARTITION, 2, 60.0)]


def test_settings_have_exact_amounts(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    group = {
        "partition": PARTITION,
        "nodes": 2,
        "cpus": 4,
        "memory_mib": 1000,
        "gpus": 1,
        "gpu_type": "l40s",
        "usd_per_hour": "1.861",
    }
    burst = {
        "accounts": ["research"],
        "partitions": [],
        "after_s": 60,
        "boot_s": 1,
        "idle_s": 2,
        "monthly_usd": "0.10",
        "groups": [group],
    }
    site = {"site": "use1", "region": REGION, "tags": {}, "groups": [], "burst": burst}
    path.write_text(json.dumps({"retry_s": 600, "sites": [site, {**site, "burst": None}]}))
    first, second = read_settings(path).sites
    assert second.burst is None and first.burst is not None
    assert (first.burst.monthly_usd, first.burst.groups[0].usd_per_hour) == (
        Decimal("0.10"),
        Decimal("1.861"),
    )


def test_people_are_told_the_decision_about_each_job(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.commands.add("7")
    world.commands.add("8", Account="b")
    assert program.explain(world.passes) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:3] == ["7", PARTITION, "cloud:"]
    assert second.split(maxsplit=2)[1:] == ["stays", "residency: jobs of account b do not leave the racks"]
    assert world.commands.updates == []
    world.cluster.slurm.fails = 1
    assert program.explain(world.passes) == 1
    assert "Unable to contact" in capsys.readouterr().err
