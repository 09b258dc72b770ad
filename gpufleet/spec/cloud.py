"""Cloud sites: network, scheduler, node groups and storage of one region of one account."""

from typing import Annotated, Literal

from pydantic import Field

from gpufleet.kinds import (
    GP3_IOPS,
    GP3_MB_S,
    NODE_VOLUME_GIB,
    SYSTEM_INSTANCE_TYPES,
    SYSTEM_NODES_MAX,
    SYSTEM_NODES_MIN,
    KubernetesAccess,
    NatKind,
)
from gpufleet.spec.autoscaler import Autoscaler
from gpufleet.spec.base import Model
from gpufleet.spec.capacity import Capacity
from gpufleet.spec.cloud_slurm import CloudSlurm
from gpufleet.spec.direct_connect import CloudDirectConnect
from gpufleet.spec.dns import CloudDns
from gpufleet.spec.fault_repair import FaultRepair
from gpufleet.spec.fields import (
    WHOLE,
    AbsolutePath,
    AccessPort,
    Arn,
    Cidr,
    Code,
    ImageReference,
    KubernetesVersion,
    LabelKey,
    LabelValue,
    MigProfile,
    Name,
    NodeCount,
    Switch,
    UserData,
)
from gpufleet.spec.gpu_sharing import GpuSharing
from gpufleet.spec.interruptions import Interruptions
from gpufleet.spec.ordered_capacity import OrderedCapacity
from gpufleet.spec.quantity import Size
from gpufleet.spec.queues import Queues
from gpufleet.spec.storage import Storage
from gpufleet.spec.teams import KubernetesTeam
from gpufleet.spec.vpn import CloudVpn


class Taint(Model):
    """A Kubernetes taint of a node group."""

    key: Annotated[LabelKey, Field(description="The taint's key.", examples=["nvidia.com/gpu"])]
    value: Annotated[LabelValue, Field(description="The taint's value.", examples=["present"])] = ""
    effect: Annotated[
        Literal["NoSchedule", "NoExecute", "PreferNoSchedule"], Field(description="What it does to pods.")
    ] = "NoSchedule"


class Volume(Model):
    """The root volume (gp3, encrypted). `throughput` in MB/s, `iops` per second."""

    size: Annotated[Size, Field(description="Its size.", examples=["500 GiB"])] = Size.of_gib(NODE_VOLUME_GIB)
    iops: Annotated[
        int,
        Field(
            ge=GP3_IOPS,
            le=80_000,
            description="Operations per second.",
            examples=[6000],
            json_schema_extra={"unit": "operations per second"},
        ),
        WHOLE,
    ] = GP3_IOPS
    throughput: Annotated[
        int,
        Field(ge=GP3_MB_S, le=2000, description="MB/s.", examples=[500], json_schema_extra={"unit": "MB/s"}),
        WHOLE,
    ] = GP3_MB_S


class InstanceStore(Model):
    """The NVMe drives of a cloud node (instance store): striped, fast, and empty after the node stops.

    On Kubernetes they carry containers, images and `emptyDir` volumes, on Slurm a file system at `mount`.
    """

    use: Annotated[
        Literal["auto", "raid0", "none"],
        Field(description="Stripe them where all types have some, always, or leave them unused."),
    ] = "auto"
    mount: Annotated[
        AbsolutePath | None,
        Field(description="Where Slurm nodes see them; /scratch if left out.", examples=["/scratch"]),
    ] = None


class NodeGroup(Model):
    """Nodes of one kind that scale together."""

    name: Annotated[Name, Field(description="Its name, unique in the fleet's site.", examples=["pretrain"])]
    instance_types: Annotated[
        tuple[Code, ...],
        Field(
            min_length=1,
            description="EC2 instance types, the preferred one first.",
            examples=[["g6e.xlarge", "g6e.2xlarge"]],
        ),
    ]
    capacity: Annotated[Capacity, Field(description="How its nodes are bought.")]
    network: Annotated[
        Literal["efa", "ena"], Field(description="EFA, with the interfaces that the type has, or plain ENA.")
    ] = "ena"
    placement: Annotated[
        Literal["auto", "cluster", "none"],
        Field(description="Cluster placement group: where it belongs, always, or never."),
    ] = "auto"
    workload: Annotated[
        Literal["training", "inference", "batch", "interactive"], Field(description="What its nodes are for.")
    ] = "batch"
    zones: Annotated[
        tuple[Code, ...], Field(description="Zones; all of the site if left out.", examples=[["us-east-1a"]])
    ] = ()
    team: Annotated[
        Name | None, Field(description="The team that its nodes and costs belong to.", examples=["research"])
    ] = None
    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, description="Labels of its nodes.", examples=[{"tier": "online"}]
    )
    taints: Annotated[tuple[Taint, ...], Field(description="Taints of its nodes.")] = ()
    volume: Annotated[Volume, Field(description="The root volume of its nodes.")] = Volume()
    public_ip: Annotated[Switch, Field(description="Public addresses (not on types with several cards).")] = (
        False
    )
    local_nvme: Annotated[InstanceStore, Field(description="The NVMe drives of its nodes.")] = InstanceStore()
    gpu_sharing: Annotated[
        GpuSharing | None,
        Field(
            description="Whether pods share GPUs (EKS); each has its own if left out.",
            examples=[{"time_slicing": {"replicas": 4}}],
        ),
    ] = None
    mig_profile: Annotated[
        MigProfile | None,
        Field(
            description="The MIG profile into whose instances each GPU is divided, as many as fit (EKS with"
            " `gpu_stack: gpu-operator`); GPUs are whole if left out.",
            examples=["1g.10gb"],
        ),
    ] = None
    image: Annotated[
        ImageReference | None,
        Field(
            description="An image of your own: an AMI id or an SSM parameter; AWS's at the locked release"
            " if left out.",
            examples=["ami-0123456789abcdef0"],
        ),
    ] = None
    user_data: Annotated[
        tuple[UserData, ...],
        Field(
            max_length=16,
            description="What nodes run or set at launch, after gpufleet's own: shell scripts, #cloud-config,"
            " NodeConfigs (EKS).",
            examples=[["#!/bin/sh\nsysctl -w vm.max_map_count=1000000\n"]],
        ),
    ] = ()


class CloudNetwork(Model):
    """The site's own network. `nat` is where private subnets reach the internet through."""

    cidr: Annotated[Cidr, Field(description="Its addresses, as 10.40.0.0/16.", examples=["10.40.0.0/16"])]
    nat: Annotated[NatKind, Field(description="NAT gateways: one, one a zone, or none.")] = "single"
    vpn: Annotated[
        CloudVpn | None, Field(description="A site-to-site VPN to the racks; none if left out.")
    ] = None
    direct_connect: Annotated[
        CloudDirectConnect | None,
        Field(description="A Direct Connect gateway that leads to the racks; none if left out."),
    ] = None
    dns: Annotated[
        CloudDns | None,
        Field(description="Names of the racks in the site, and of the site at the racks; none if left out."),
    ] = None


class SystemNodes(Model):
    """Nodes without GPUs that carry the cluster's own services."""

    instance_types: Annotated[
        tuple[Code, ...],
        Field(
            min_length=1,
            description="EC2 instance types, all of Intel and AMD or all of Graviton.",
            examples=[["m7i.xlarge"]],
        ),
    ] = SYSTEM_INSTANCE_TYPES
    min: Annotated[NodeCount, Field(description="Nodes at least.", examples=[2])] = SYSTEM_NODES_MIN
    max: Annotated[NodeCount, Field(description="Nodes at most.", examples=[3])] = SYSTEM_NODES_MAX


class Kubernetes(Model):
    """Settings of a Kubernetes site. The API's endpoint is private; networks have to be let in."""

    version: Annotated[
        KubernetesVersion, Field(description="The minor version of EKS.", examples=["1.35"])
    ] = "1.35"
    private_cidrs: Annotated[
        tuple[Cidr, ...],
        Field(
            description="Connected networks (VPN, racks) that reach the private API; none if empty.",
            examples=[["10.60.0.0/22"]],
        ),
    ] = ()
    public_cidrs: Annotated[
        tuple[Cidr, ...],
        Field(
            description="Networks that may reach the API from outside; none if empty.",
            examples=[["203.0.113.0/24"]],
        ),
    ] = ()
    access: Annotated[
        KubernetesAccess | None,
        Field(
            description="How a run reaches the API: ssm (a port-forward through a system node), direct (the"
            " run is in a network that reaches it), or phased (nothing is applied in the cluster yet)."
            " Defaults to direct with public_cidrs, else to ssm.",
            examples=["ssm"],
        ),
    ] = None
    access_port: Annotated[
        AccessPort | None,
        Field(
            description="The port that a run with `access: ssm` uses on its own machine. Defaults to one"
            " computed from the names of fleet, environment and site.",
            examples=[20443],
        ),
    ] = None
    admins: Annotated[
        tuple[Arn, ...],
        Field(
            description="ARNs of IAM roles that administer the cluster, as the one that creates it does.",
            examples=[["arn:aws:iam::111122223333:role/platform"]],
        ),
    ] = ()
    viewers: Annotated[
        tuple[Arn, ...],
        Field(
            description="ARNs of IAM roles that read everything in the cluster, secrets too, and change"
            " nothing: those of previews.",
            examples=[["arn:aws:iam::111122223333:role/preview"]],
        ),
    ] = ()
    gpu_stack: Annotated[
        Literal["device-plugin", "gpu-operator"], Field(description="What makes GPUs known to Kubernetes.")
    ] = "device-plugin"
    neuron_scheduler: Annotated[
        Switch,
        Field(
            description="Runs a second scheduler, `neuron-scheduler`, that gives pods neighbouring devices of"
            " a node; only where a node group has Neuron devices."
        ),
    ] = True
    system_nodes: Annotated[SystemNodes, Field(description="Nodes for the cluster's own services.")] = (
        SystemNodes()
    )
    autoscaler: Annotated[
        Autoscaler | None,
        Field(
            description="What sets the sizes of node groups between `min` and `max`; nothing if left out.",
            examples=[{"scale_down_after": "10 min"}],
        ),
    ] = None
    queues: Annotated[
        Queues | None,
        Field(
            description="What lets jobs of teams wait, borrow and give back devices; nothing if left out: a"
            " pod above its team's quota is refused.",
            examples=[{"jobset": True}],
        ),
    ] = None
    fault_repair: Annotated[
        FaultRepair | None,
        Field(
            description="What finds faulty GPUs, and what it does with their nodes; nothing if left out.",
            examples=[{"action": "drain"}],
        ),
    ] = None
    teams: Annotated[tuple[KubernetesTeam, ...], Field(description="Namespaces with GPU quotas.")] = ()


class CloudSite(Model):
    """One region of one cloud account."""

    site: Annotated[Name, Field(description="Its name, unique in the fleet.", examples=["use1"])]
    provider: Annotated[Literal["aws"], Field(description="The cloud.")] = "aws"
    region: Annotated[Code, Field(description="The region, as us-east-1.", examples=["us-east-1"])]
    zones: Annotated[
        tuple[Code, ...],
        Field(
            min_length=1,
            description="Its availability zones, as us-east-1a.",
            examples=[["us-east-1a", "us-east-1b"]],
        ),
    ]
    network: Annotated[CloudNetwork, Field(description="The site's own network.")]
    scheduler: Annotated[
        Literal["kubernetes", "slurm"], Field(description="Who places jobs: EKS, or Slurm.")
    ] = "kubernetes"
    kubernetes: Annotated[Kubernetes | None, Field(description="Settings of a Kubernetes site.")] = None
    slurm: Annotated[
        CloudSlurm | None,
        Field(
            description="The rack site whose Slurm launches the nodes of a Slurm site when jobs need them;"
            " nodes of Auto Scaling groups that are in no Slurm cluster if left out."
        ),
    ] = None
    interruptions: Annotated[
        Interruptions | None,
        Field(
            description="A queue of AWS's notices about its nodes (spot, maintenance, end of a Capacity"
            " Block), and the handler that acts on them; neither if left out.",
            examples=[{"checkpoint": "90 s"}],
        ),
    ] = None
    node_groups: Annotated[
        tuple[NodeGroup, ...], Field(max_length=5000, description="Nodes that scale together.")
    ] = ()
    ordered_capacity: Annotated[
        tuple[OrderedCapacity, ...],
        Field(description="Nodes that are drawn from several node groups, in an order."),
    ] = ()
    storage: Annotated[tuple[Storage, ...], Field(description="File systems and buckets.")] = ()
