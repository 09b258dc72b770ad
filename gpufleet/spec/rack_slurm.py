"""What a rack site asks of Slurm. Without it: one partition of all nodes, an account for each team."""

from typing import Annotated, Literal

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import DECIMAL, WHOLE, MountSource, Name, ReservedCpus, ReservedMemory, Switch
from gpufleet.spec.quantity import Duration, HostRange


class SlurmPartition(Model):
    """A partition: nodes that jobs are sent to, and on what terms."""

    name: Annotated[Name, Field(description="Its name, unique in the site.", examples=["batch"])]
    nodes: Annotated[HostRange | None, Field(description="Its GPU nodes; all if left out.")] = None
    default: Annotated[Switch, Field(description="Where jobs go that name none.")] = False
    max_time: Annotated[Duration | None, Field(description="The longest a job may run.")] = None
    priority: Annotated[
        int, Field(ge=0, le=65_533, description="Jobs of a higher tier go first.", examples=[10]), WHOLE
    ] = 1
    teams: Annotated[
        tuple[Name, ...],
        Field(description="Teams that may use it; all if left out.", examples=[["research"]]),
    ] = ()


class SlurmQos(Model):
    """A quality of service beside those that the teams' priorities bring (low, normal, high)."""

    name: Annotated[Name, Field(description="Its name, unique in the site.", examples=["urgent"])]
    priority: Annotated[
        int, Field(ge=0, le=1_000_000, description="Added to a job's priority.", examples=[100]), WHOLE
    ] = 0
    max_gpus_per_user: Annotated[
        Annotated[int, Field(ge=0, le=1_000_000), WHOLE] | None,
        Field(description="GPUs of one user at once.", examples=[16], json_schema_extra={"unit": "GPUs"}),
    ] = None
    max_time: Annotated[Duration | None, Field(description="The longest a job may run.")] = None
    preempts: Annotated[
        tuple[Name, ...], Field(description="QOS whose jobs make room for it.", examples=[["low"]])
    ] = ()


class Billing(Model):
    """What use costs a team's share, by TRES. An idle core or GiB beside a used GPU costs nothing more."""

    gpu: Annotated[
        float, Field(ge=0, le=1_000_000, description="Weight of a GPU.", examples=[1.0]), DECIMAL
    ] = 1.0
    cpu: Annotated[
        float, Field(ge=0, le=1_000_000, description="Weight of a processor.", examples=[0.05]), DECIMAL
    ] = 0.0
    memory_gib: Annotated[
        float, Field(ge=0, le=1_000_000, description="Weight of a GiB.", examples=[0.01]), DECIMAL
    ] = 0.0


Preemption = Annotated[
    Literal["none", "requeue", "cancel"],
    Field(description="What becomes of jobs that make room for others of a higher QOS."),
]
MoreQos = Annotated[tuple[SlurmQos, ...], Field(description="QOS beside low, normal and high.")]
JobBilling = Annotated[Billing, Field(description="What counts against a team's share.")]


class RackSlurm(Model):
    """Slurm of a rack site."""

    cluster: Annotated[
        Name | None, Field(description="The cluster's name; the site's if left out.", examples=["dc1"])
    ] = None
    state: Annotated[
        MountSource | None,
        Field(
            description="host:/export (nfs) where several controllers keep their state;"
            " the site's first NFS file system if left out.",
            examples=["nas01:/export/slurm"],
        ),
    ] = None
    partitions: Annotated[
        tuple[SlurmPartition, ...], Field(description="Partitions; one of all nodes, `gpu`, if left out.")
    ] = ()
    qos: MoreQos = ()
    preemption: Preemption = "requeue"
    billing: JobBilling = Billing()
    health_check: Annotated[
        Switch, Field(description="Whether nodes are checked before and after each job, and in between.")
    ] = True
    ssh_requires_job: Annotated[
        Switch,
        Field(
            description="Whether ssh to GPU nodes needs a job there. Users who may become root need none.",
        ),
    ] = True
    reserved_cpus: ReservedCpus = 0
    reserved_memory_gib: ReservedMemory = 4
