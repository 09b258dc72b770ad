"""A cluster with cloud nodes: a stand-in of slurmctld, and EC2 from the emulated AWS."""

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
from cloud_nodes.slurm import Slurm  # noqa: E402

from tests.unit.ansible.slurm_cloud.stand_in_slurm import PREFIX, StandInSlurm  # noqa: E402

TAGS = {"gpufleet:fleet": "atlas", "gpufleet:site": "use1"}
GROUP = "atlas-prod-use1-sweep"
RETRY_S = 600


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
    slurm = StandInSlurm(account.running)
    account.clock = lambda: slurm.now
    ec2 = Ec2(settings.sites[0])
    return Cluster(slurm, account, settings, ec2)


def numbers(reason: str) -> str:
    """A reason without its time."""
    return re.sub(r"\d{4}-\S+Z", "TIME", reason)
