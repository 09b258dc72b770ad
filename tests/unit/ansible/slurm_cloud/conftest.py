"""A cluster with cloud nodes: slurmctld's answers from memory, and EC2 from the emulated AWS."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT
from moto.ec2.models import ec2_backends

from gpufleet.lab.aws.backends import install
from gpufleet.lab.aws.faults import shortage
from tests.unit.lab.two_zones import KIND, REGION, TwoZones

FILES = Path(__file__).resolve().parents[4] / "ansible" / "roles" / "slurm_cloud" / "files"
sys.path.insert(0, str(FILES))

from cloud_nodes.aws import Ec2  # noqa: E402 - the program of the role, as controllers have it
from cloud_nodes.passes import Passes  # noqa: E402
from cloud_nodes.settings import Group, Settings, Site  # noqa: E402
from cloud_nodes.slurm import Slurm, SlurmError  # noqa: E402

TAGS = {"gpufleet:fleet": "atlas", "gpufleet:site": "use1"}
NODES = 6
PREFIX = "use1-sweep-"
GROUP = "atlas-prod-use1-sweep"
RESUME_S, SUSPEND_S, IDLE_S, RETRY_S = 300.0, 60.0, 120.0, 600
BOOT_S = 40.0


@dataclass
class CloudNode:
    """A node: base state, flags, address, reason, the job on it, and since when it powers up or down."""

    state: str = "idle"
    flags: set[str] = field(default_factory=lambda: {"cloud", "powered_down"})
    address: str = ""
    reason: str = "none"
    job: int | None = None
    since: float = 0.0
    late: bool = False
    """Whether it has registered after its ResumeTimeout: Slurm powers it down again when it is idle."""
    up: bool = True
    """Whether it is in the bitmap of nodes that are up: not after it was set or powered down, until it
    registers (slurmctld/node_mgr.c, up_node_bitmap)."""


class StandInSlurm:
    """slurmctld's rules for cloud nodes (Slurm Power Saving Guide), and the output of its commands.

    `tests/rack/test_cloud_nodes.py` runs the program with a real one.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.nodes = {f"{PREFIX}{number}": CloudNode() for number in range(1, NODES + 1)}
        self.jobs: dict[int, tuple[int, float]] = {}
        """Job -> its number of nodes and how long it runs."""
        self.ended: set[int] = set()
        self.resumes: list[list[str]] = []
        self.now = 1_800_000_000.0
        self.fails = 0
        self.said: list[Sequence[str]] = []
        """The commands that it was given."""
        self.signalled: list[int] = []
        self.requeued: list[int] = []
        self.comments: dict[int, str] = {}
        self.stubborn: set[int] = set()
        """Jobs that may not be queued again."""
        self.only_backfill = False
        """Whether the main scheduler does not run, as after a failover before Slurm 23.02.4."""
        self.dies_before = ""
        """The command before which the program is killed."""

    def submit(self, job: int, nodes: int, seconds: float) -> None:
        self.jobs[job] = (nodes, seconds)

    def on(self, job: int) -> list[str]:
        """The nodes of a job."""
        return [name for name, node in self.nodes.items() if node.job == job]

    def tick(self, seconds: float) -> None:
        """Let time pass: nodes register, time out, power down; jobs start and end."""
        self.now += seconds
        addresses = self.account.running()
        for name, node in self.nodes.items():
            booted = addresses.get(node.address, self.now) + BOOT_S <= self.now
            if "powering_up" in node.flags and node.state != "down":
                if booted and node.address:
                    node.flags.discard("powering_up")
                    node.since, node.up = self.now, True
                elif self.now - node.since > RESUME_S:
                    self._down(node, "ResumeTimeout reached")
                    node.flags.discard("powering_up")
                    node.flags |= {"powered_down", "not_responding"}
            elif "powering_down" in node.flags:
                if self.now - node.since > SUSPEND_S:
                    node.flags -= {"powering_down", "powering_up"}
                    node.flags.add("powered_down")
                    node.address = name
            elif node.flags & {"powered_down"}:
                continue
            elif node.state == "down" and node.late:
                if self.now - node.since > IDLE_S:
                    # As with `idle_on_node_suspend`: the node stays out of the bitmap.
                    node.state, node.since, node.late = "idle", self.now, False
                    node.flags.add("powering_down")
            elif node.state in ("idle", "allocated"):
                if node.job is not None and node.address not in addresses:
                    continue  # SlurmdTimeout is longer than the program's own look
                if node.job is None and self.now - node.since > IDLE_S:
                    node.flags.add("powering_down")
                    node.since = self.now
        self._schedule()

    def register_late(self, node: CloudNode) -> None:
        """Let a node register that is down since its ResumeTimeout (slurmctld/node_mgr.c, "now responding").

        It loses its reason (clusteracct_storage_g_node_up).
        """
        assert node.state == "down"
        node.flags -= {"powered_down", "not_responding"}
        node.reason, node.since, node.late = "none", self.now, True

    def _schedule(self) -> None:
        for job, (count, seconds) in list(self.jobs.items()):
            mine = self.on(job)
            if mine:
                up = all("powering_up" not in self.nodes[name].flags for name in mine)
                if up and all(self.now - self.nodes[name].since >= seconds for name in mine):
                    del self.jobs[job]
                    self.ended.add(job)
                    for name in mine:
                        self.nodes[name].job, self.nodes[name].state = None, "idle"
                        self.nodes[name].since = self.now
                continue
            free = [
                name
                for name, node in self.nodes.items()
                if node.state == "idle" and node.job is None and not node.flags & {"powering_down", "drain"}
                if node.up or not self.only_backfill
            ][:count]
            if len(free) < count:
                continue
            asleep = [name for name in free if "powered_down" in self.nodes[name].flags]
            for name in free:
                node = self.nodes[name]
                node.job, node.state, node.since = job, "allocated", self.now
            for name in asleep:
                self.nodes[name].flags.discard("powered_down")
                self.nodes[name].flags.add("powering_up")
            if asleep:
                self.resumes.append(asleep)

    def _down(self, node: CloudNode, reason: str) -> None:
        node.state, node.reason, node.up = "down", reason, False
        job, node.job = node.job, None
        for other in self.nodes.values():
            if job is not None and other.job == job:
                other.job, other.state, other.since = None, "idle", self.now

    def run(self, words: Sequence[str]) -> str:
        """Answer a command of Slurm."""
        self.said.append(words)
        if self.fails:
            self.fails -= 1
            raise SlurmError("scontrol: Unable to contact slurm controller")
        if words[0] == self.dies_before:
            self.dies_before = ""
            raise SystemExit
        match words[:2]:
            case ["squeue", _] if "--nodelist" in words:
                asked = set(words[words.index("--nodelist") + 1].split(","))
                return "".join(
                    f"{job:<32}{'R':<16}{self.comments.get(job, '(null)'):<64}{','.join(on):<8192}\n"
                    for job in self.jobs
                    if asked & set(on := self.on(job))
                )
            case ["scancel", "--signal=USR1"]:
                self.signalled.append(int(words[3]))
                return ""
            case ["scontrol", "requeue"]:
                self._requeue(int(words[2]))
                return ""
            case ["sinfo", _]:
                return "".join(
                    f"{name:<64}{node.address or name:<128}"
                    f"{'+'.join([node.state, *sorted(node.flags)]):<128}{node.reason:<512}\n"
                    for name, node in self.nodes.items()
                )
            case ["squeue", _]:
                waiting = [
                    self.on(job)
                    for job in self.jobs
                    if any("powering_up" in self.nodes[name].flags for name in self.on(job))
                ]
                return "".join(f"{','.join(names):<8192}\n" for names in waiting)
            case ["scontrol", "show"]:
                return "\n".join(words[3].split(","))
            case ["scontrol", "ping"]:
                return "Slurmctld(primary) at ctl01 is DOWN\nSlurmctld(backup) at ctl02 is UP\n"
            case ["scontrol", "update"]:
                self._update(dict(word.split("=", 1) for word in words[2:]))
                return ""
        raise AssertionError(words)

    def _requeue(self, job: int) -> None:
        if job in self.stubborn:
            raise SlurmError("scontrol: Requested operation is presently disabled for job")
        self.requeued.append(job)
        for name in self.on(job):
            self.nodes[name].job, self.nodes[name].state = None, "idle"
            self.nodes[name].since = self.now

    def _update(self, given: dict[str, str]) -> None:
        names = given["nodename"].split(",")
        for place, name in enumerate(names):
            node = self.nodes[name]
            if "nodeaddr" in given:
                node.address = given["nodeaddr"].split(",")[place]
            elif given["state"] == "down":
                self._down(node, given["reason"])
            elif given["state"] == "drain":
                node.flags.add("drain")
                node.reason = given["reason"]
            elif given["state"] == "resume":
                node.flags.discard("drain")
                node.reason = "none"
            elif given["state"] == "power_down_force":
                self._down(node, node.reason)
                node.state, node.since = "idle", self.now
                if "powered_down" not in node.flags:
                    node.flags.add("powering_down")
                node.flags -= {"powering_up", "not_responding"}
                # As with `idle_on_node_suspend`, which the role slurm_controller sets.
                node.flags.discard("drain")
            elif given["state"] == "idle":
                assert node.state in ("idle", "down")
                node.flags.discard("drain")
                # The accounting takes the reason away (clusteracct_storage_g_node_up).
                node.state, node.reason, node.up = "idle", "none", True


class Account(TwoZones):
    """The account of the cloud nodes."""

    def __init__(self) -> None:
        super().__init__(TAGS | {"gpufleet:node-group": "sweep"})
        self.times: dict[str, float] = {}
        self.clock: Callable[[], float] = lambda: 0.0

    def instances(self) -> list[Any]:
        """moto's instances that are not shutting down."""
        found = ec2_backends[ACCOUNT][REGION].all_instances()
        return [each for each in found if each.state in ("pending", "running")]

    def running(self) -> dict[str, float]:
        """Address -> when the instance was first seen."""
        return {each.private_ip: self.times.setdefault(each.id, self.clock()) for each in self.instances()}

    def of_node(self, node: str) -> list[str]:
        """The ids of a node's instances."""
        return [each.id for each in self.instances() if tags_of(each).get("gpufleet:slurm-node") == node]

    def reclaim(self, instance: str) -> None:
        """Take an instance away, as EC2 does with a spot instance."""
        self.ec2.terminate_instances(InstanceIds=[instance])


@dataclass
class Cluster:
    """Slurm, the account, and the program's service."""

    slurm: StandInSlurm
    account: Account
    settings: Settings
    ec2: Ec2
    service: Passes = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def passes(self, lasting: bool = False) -> Passes:
        """A program that has just started."""
        return Passes(
            self.settings,
            Slurm(self.slurm.run),
            connect=lambda _: self.ec2,
            clock=lambda: self.slurm.now,
            lasting=lasting,
        )

    def restart(self) -> None:
        """Kill the service and start it again: it remembers nothing."""
        self.service = self.passes(lasting=True)

    def call_resume_programs(self) -> None:
        """Run the ResumeProgram for all nodes that Slurm has asked for."""
        while self.slurm.resumes:
            names = self.slurm.resumes.pop(0)
            self.passes().run(names, self.slurm.now)

    def live(self, seconds: float, step: float = 10.0) -> None:
        """Let time pass, with the service running and the programs called."""
        until = self.slurm.now + seconds
        while self.slurm.now < until:
            self.slurm.tick(step)
            self.call_resume_programs()
            self.service.run()

    def states(self) -> dict[str, str]:
        return {name: "+".join([each.state, *sorted(each.flags)]) for name, each in self.slurm.nodes.items()}

    def down(self) -> list[str]:
        return [name for name, each in self.slurm.nodes.items() if each.state == "down"]


def tags_of(instance: Any) -> dict[str, str]:
    """The tags of moto's instance."""
    return {tag["key"]: tag["value"] for tag in instance.get_tags()}


def launched_at(instance: Any) -> float:
    """When moto's instance was launched, in epoch seconds."""
    launched: datetime = instance.launch_time
    return launched.replace(tzinfo=UTC).timestamp()


def tidy(cluster: Cluster) -> None:
    """Assert that each instance belongs to a node that is up, and each node that is up has one."""
    for each in cluster.account.instances():
        assert tags_of(each).get("gpufleet:slurm-node") in cluster.slurm.nodes, tags_of(each)
    for name, node in cluster.slurm.nodes.items():
        up = node.state != "down" and not node.flags & {"powered_down", "powering_down"}
        assert len(cluster.account.of_node(name)) == up, (name, node)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        install("ec2")
        made = Account()
        shortage.install(lambda: made.shortages)
        yield made
        shortage.install(tuple)


@pytest.fixture
def cluster(account: Account) -> Cluster:
    return cluster_of(account)


def cluster_of(
    account: Account, purchases: Sequence[str] = ("on-demand",), stopped: str = "", drained: str = ""
) -> Cluster:
    """A cluster whose node group is bought in that way, with the names of its budget's records."""
    subnets = tuple(account.subnets)
    group = Group(
        GROUP, PREFIX, account.template, "1", (KIND,), subnets, tuple(purchases), drained_parameter=drained
    )
    site = Site("use1", REGION, TAGS, (group,), stopped_parameter=stopped, stopped_region=REGION)
    settings = Settings((site,), RETRY_S)
    slurm = StandInSlurm(account)
    account.clock = lambda: slurm.now
    ec2 = Ec2(settings.sites[0])
    return Cluster(slurm, account, settings, ec2)


def numbers(reason: str) -> str:
    """A reason without its time."""
    return re.sub(r"\d{4}-\S+Z", "TIME", reason)
