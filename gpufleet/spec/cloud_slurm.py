"""Cloud nodes that a Slurm launches when jobs need them: that of a rack site, or one in the cloud site."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import Arn, Name
from gpufleet.spec.quantity import Duration, Money
from gpufleet.spec.slurm_servers import SlurmServers


class CloudBurst(Model):
    """When waiting jobs of the rack site may use cloud nodes too. They keep their own partitions, and run
    where nodes are free first.
    """

    teams: Annotated[
        tuple[Name, ...],
        Field(
            min_length=1,
            description="Teams whose jobs, with their data, may leave the racks.",
            examples=[["research"]],
        ),
    ]
    monthly: Annotated[
        Money,
        Field(
            description="What all jobs on the site's nodes may cost in a month, those that users send there"
            " included.",
            examples=["500 USD"],
        ),
    ]
    after: Annotated[
        Duration,
        Field(
            description="How long a job waits for nodes first. One that would miss its deadline (`sbatch"
            " --deadline`) on the racks need not.",
            examples=["30 min"],
        ),
    ] = Duration(timedelta(minutes=30))
    partitions: Annotated[
        tuple[Name, ...],
        Field(description="Partitions of the rack site with such jobs; all if left out.", examples=[["gpu"]]),
    ] = ()
    groups: Annotated[
        tuple[Name, ...],
        Field(
            description="Node groups that they may use; all of the site if left out.", examples=[["sweep"]]
        ),
    ] = ()


class CloudSlurm(Model):
    """Slurm of a cloud site, whose controllers launch and terminate its nodes. They are those of a rack site,
    which have to reach the site's network, and its nodes them; or servers in the site. Each node group is a
    partition, named after site and group.
    """

    exactly_one_of = ("controllers", "servers")

    controllers: Annotated[
        Name | None, Field(description="The rack site whose Slurm the nodes belong to.", examples=["dc1"])
    ] = None
    servers: Annotated[
        SlurmServers | None, Field(description="Controllers and login hosts of a Slurm of its own.")
    ] = None
    identity: Annotated[
        Arn | None,
        Field(
            description="With `controllers`: ARN of the IAM role or user whose credentials they have; it may"
            " assume the role that launches the nodes.",
            examples=["arn:aws:iam::111122223333:role/dc1-controllers"],
        ),
    ] = None
    suspend_after: Annotated[
        Duration, Field(description="How long a node is idle before it is terminated.", examples=["10 min"])
    ] = Duration(timedelta(minutes=10))
    resume_within: Annotated[
        Duration,
        Field(
            description="How long a launched node may take until it takes jobs; then it is terminated and"
            " its jobs are queued again.",
            examples=["20 min"],
        ),
    ] = Duration(timedelta(minutes=20))
    retry_after: Annotated[
        Duration,
        Field(
            description="How long nodes stay out of use for which there was no capacity.", examples=["10 min"]
        ),
    ] = Duration(timedelta(minutes=10))
    burst: Annotated[
        CloudBurst | None,
        Field(
            description="When waiting jobs of the racks use the site's nodes; only jobs that name its"
            " partitions if left out.",
            examples=[{"teams": ["research"], "monthly": "500 USD"}],
        ),
    ] = None
