"""The fleet file as frozen models: what a user may declare, and nothing derived from it.

Quantities are parsed once into the types of `gpufleet.spec.quantity`. Rules that need more than
one field or the catalog live in `gpufleet.checks`; these models hold the shape, simple bounds and
the names of fields. Unknown fields are forbidden; the loader turns pydantic's errors into findings
with file, line and a "did you mean".
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from gpufleet.spec.fields import Name, NodeCount, Number, Switch, Whole, Word
from gpufleet.spec.quantity import (
    Duration,
    EnergyPrice,
    HostRange,
    Money,
    Percent,
    Power,
    Size,
    ThroughputPerTiB,
    When,
)


class Model(BaseModel):
    """Base of every model of the fleet file: frozen, and unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    exactly_one_of: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _has_exactly_one(self) -> Self:
        given = [kind for kind in self.exactly_one_of if getattr(self, kind) is not None]
        if self.exactly_one_of and len(given) != 1:
            listed = ", ".join(self.exactly_one_of)
            raise PydanticCustomError(
                "gpufleet",
                "{message}",
                {
                    "rule": "exactly-one-of",
                    "message": f"exactly one of {listed} is needed",
                    "remedy": "keep one",
                },
            )
        return self


class Budget(Model):
    """What the environment may cost. `upfront` caps payments made at once (Capacity Blocks)."""

    monthly: Money
    alerts: tuple[Percent, ...] = (Percent(50), Percent(80), Percent(100))
    on_breach: Literal["notify", "stop-scale-out"] = "notify"
    notify: tuple[str, ...] = ()
    upfront: Money | None = None


class OnDemand(Model):
    """On-demand nodes, scaled between `min` and `max`; starts at `desired` (default `min`)."""

    min: NodeCount = 0
    max: NodeCount
    desired: NodeCount | None = None


class Spot(Model):
    """Spot nodes. `on_shortage` says, in order, what to try when there is no capacity."""

    min: NodeCount = 0
    max: NodeCount
    desired: NodeCount | None = None
    on_shortage: tuple[Literal["other-zone", "other-type", "on-demand", "wait"], ...] = ("other-zone",)


class CapacityBlock(Model):
    """EC2 Capacity Block for ML: `nodes` of one type, in one zone, for a fixed time, paid upfront.

    Without `id` the earliest offering at or after `start` is bought, once, and kept in the stack's
    state. With `id` an existing block is used; `instance_type` and `zone` then say what it holds.
    A block has all its nodes or none, so `min` and `max`, if written, equal `nodes`.
    """

    nodes: NodeCount
    duration: Duration | None = None
    start: When | None = None
    min: NodeCount | None = None
    max: NodeCount | None = None
    id: str | None = None
    instance_type: str | None = None
    zone: str | None = None


class OnDemandReservation(Model):
    """On-Demand Capacity Reservation (ODCR): created here, or an existing one by `id`.

    With `id`, `instance_type`, `zone` and `nodes` say what the reservation holds, and
    `placement_group` names the group it was created in, if any (a group forced onto a reservation
    that was made outside of it cannot use the reserved capacity).
    """

    nodes: NodeCount
    id: str | None = None
    instance_type: str | None = None
    zone: str | None = None
    placement_group: str | None = None


class Reserved(Model):
    """Reserved capacity: exactly one of a Capacity Block and an On-Demand Capacity Reservation."""

    exactly_one_of = ("capacity_block", "odcr")

    capacity_block: CapacityBlock | None = None
    odcr: OnDemandReservation | None = None


class Capacity(Model):
    """How nodes are bought: exactly one of the three."""

    exactly_one_of = ("on_demand", "spot", "reserved")

    on_demand: OnDemand | None = None
    spot: Spot | None = None
    reserved: Reserved | None = None


class Taint(Model):
    """A Kubernetes taint of a node group."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"


class Volume(Model):
    """The root volume (gp3, encrypted). `throughput` in MB/s, `iops` per second."""

    size: Size = Size.of_gib(200)
    iops: Annotated[Whole, Field(ge=3000, le=80_000)] = 3000
    throughput: Annotated[Whole, Field(ge=125, le=2000)] = 125


class NodeGroup(Model):
    """Nodes of one kind that scale together."""

    name: Name
    instance_types: Annotated[tuple[str, ...], Field(min_length=1)]
    capacity: Capacity
    network: Literal["efa", "ena"] = "ena"
    placement: Literal["auto", "cluster", "none"] = "auto"
    workload: Literal["training", "inference", "batch", "interactive"] = "batch"
    zones: tuple[str, ...] = ()
    team: str | None = None
    labels: dict[str, Word] = {}
    taints: tuple[Taint, ...] = ()
    volume: Volume = Volume()
    public_ip: Switch = False


class CloudNetwork(Model):
    """The site's own network. `nat` is where private subnets reach the internet through."""

    cidr: str
    nat: Literal["single", "per-zone", "none"] = "single"


class Team(Model):
    """A team of a Kubernetes site: its namespace and the GPUs it may hold at once."""

    name: Name
    gpus: Annotated[Whole, Field(ge=0)]
    priority: Literal["low", "normal", "high"] = "normal"


class SystemNodes(Model):
    """Nodes without GPUs that carry the cluster's own services."""

    instance_types: Annotated[tuple[str, ...], Field(min_length=1)] = ("m7i.xlarge",)
    min: NodeCount = 2
    max: NodeCount = 3


class Kubernetes(Model):
    """Settings of a Kubernetes site. The endpoint is private unless CIDRs are named."""

    version: Annotated[str, Field(pattern=r"^1\.\d{2}$")] = "1.35"
    public_cidrs: tuple[str, ...] = ()
    gpu_stack: Literal["device-plugin", "gpu-operator"] = "device-plugin"
    system_nodes: SystemNodes = SystemNodes()
    teams: tuple[Team, ...] = ()


class Lustre(Model):
    """FSx for Lustre. `throughput` belongs to persistent types; `import_from` is `s3://bucket/prefix`.

    The bucket of `import_from` is created when the site declares a bucket of that name, and must
    exist otherwise. `backups` is how long daily backups are kept.
    """

    capacity: Size
    deployment: Literal["persistent-2", "persistent-1", "scratch-2"] = "persistent-2"
    throughput: ThroughputPerTiB | None = None
    efa: Switch = False
    metadata_iops: Whole | None = None
    import_from: Annotated[str, Field(pattern=r"^s3://")] | None = None
    export: Switch = False
    compression: Literal["lz4", "none"] = "lz4"
    backups: Duration | None = None
    zone: str | None = None


class Bucket(Model):
    """An S3 bucket: private, encrypted, TLS only. `expire_after` deletes objects by age."""

    name: str
    versioning: Switch = True
    expire_after: Duration | None = None


class Storage(Model):
    """Shared storage of a site: exactly one kind. `mount` is where nodes see it (not for buckets)."""

    exactly_one_of = ("lustre", "bucket")

    name: Name
    lustre: Lustre | None = None
    bucket: Bucket | None = None
    mount: str | None = None


class CloudSite(Model):
    """One region of one cloud account."""

    site: Name
    provider: Literal["aws"] = "aws"
    region: str
    zones: Annotated[tuple[str, ...], Field(min_length=1)]
    network: CloudNetwork
    scheduler: Literal["kubernetes", "slurm"] = "kubernetes"
    kubernetes: Kubernetes | None = None
    node_groups: tuple[NodeGroup, ...] = ()
    storage: tuple[Storage, ...] = ()


class Fabric(Model):
    """The compute fabric of a rack site."""

    kind: Literal["infiniband", "roce"]
    speed: Literal["hdr", "ndr", "xdr", "200gbe", "400gbe", "800gbe"]
    topology: Literal["rail-optimized", "fat-tree"] = "rail-optimized"


class SitePower(Model):
    """Electricity: capacity of a rack, power usage effectiveness (at least 1), price of energy."""

    per_rack: Power
    pue: Annotated[Number, Field(ge=1.0, le=3.0)]
    price: EnergyPrice


class Ownership(Model):
    """What a node cost and over how long it is written off; omitted means sunk, and not counted."""

    acquisition: Money
    lifetime: Duration


class Ssh(Model):
    """How Ansible reaches the hosts."""

    user: str = "ubuntu"
    port: Annotated[Whole, Field(ge=1, le=65535)] = 22
    domain: str = ""


class OnPremStorage(Model):
    """A file system that nodes mount: `source` is `host:/export` (nfs) or `mgs@tcp:/fs` (lustre)."""

    name: Name
    kind: Literal["nfs", "lustre"]
    source: str
    mount: str


class OnPremSite(Model):
    """Racks of one system type in one place. Host ranges are written `dgx[001-064]`."""

    site: Name
    system: str
    nodes: HostRange
    bmc: HostRange | None = None
    controllers: HostRange | None = None
    login: HostRange | None = None
    network: str | None = None
    fabric: Fabric
    scheduler: Literal["slurm", "kubernetes"] = "slurm"
    power: SitePower | None = None
    ownership: Ownership | None = None
    ssh: Ssh = Ssh()
    storage: tuple[OnPremStorage, ...] = ()
    teams: tuple[Team, ...] = ()


class Software(Model):
    """The software channel: one lock for driver, Fabric Manager, CUDA, NCCL, OFED and DCGM."""

    channel: Annotated[str, Field(pattern=r"^\d{4}\.\d{2}$")]


class FleetSpec(Model):
    """One environment of one fleet: a whole fleet file after `extends:` has been merged in."""

    api_version: Annotated[Literal["gpufleet/v1"], Field(alias="apiVersion")]
    fleet: Name
    environment: Name
    budget: Budget
    tags: dict[str, Word]
    required_tags: tuple[str, ...] = ("team", "cost-center", "project")
    cloud: tuple[CloudSite, ...] = ()
    onprem: tuple[OnPremSite, ...] = ()
    software: Software
