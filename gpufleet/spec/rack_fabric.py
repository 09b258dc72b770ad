"""The compute fabric of a rack site: its kind, and what is known of its switches and managers.

Only `kind` and `speed` are needed. Rails follow from the system type; switches, GUIDs and subnet
manager hosts are facts of the cabling that nothing else here can know.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gpufleet.spec.base import Model, Narrowed
from gpufleet.spec.fields import WHOLE, DeviceName, Guid, Name, PartitionKey, Switch
from gpufleet.spec.quantity import HostRange

GBPS = {"hdr": 200, "ndr": 400, "xdr": 800, "200gbe": 200, "400gbe": 400, "800gbe": 800}
"""Speed of one 4x link of each generation, and of one Ethernet port, in Gb/s."""


class FabricSwitch(Model):
    """A switch of the compute fabric. Slurm places jobs by it; the subnet manager roots trees at spines."""

    name: Annotated[Name, Field(description="Its name, unique in the site.", examples=["leaf01"])]
    tier: Annotated[Literal["leaf", "spine", "core"], Field(description="Leaves have nodes below them.")] = (
        "leaf"
    )
    nodes: Annotated[HostRange | None, Field(description="A leaf's GPU nodes.")] = None
    uplinks: Annotated[
        tuple[Name, ...], Field(description="Switches of the tier above.", examples=[["spine01", "spine02"]])
    ] = ()
    rail: Annotated[
        Annotated[int, Field(ge=0, le=15), WHOLE] | None,
        Field(description="The rail that a leaf serves, from 0.", examples=[0]),
    ] = None
    guid: Annotated[
        Guid | None, Field(description="Its node GUID (InfiniBand).", examples=["0x0002c903000e0b72"])
    ] = None


class SubnetManager(Model):
    """A host that runs opensm. The highest priority is master; the others stand by."""

    host: Annotated[
        Name, Field(description="A controller or login host with an InfiniBand port.", examples=["ctl01"])
    ]
    priority: Annotated[
        int,
        Field(ge=0, le=15, description="Who is master: the highest of the running ones.", examples=[10]),
        WHOLE,
    ]
    port_guid: Annotated[
        Guid | None,
        Field(
            description="The port it manages through; its first active one if left out.",
            examples=["0x0002c903000e0b73"],
        ),
    ] = None


class FabricPartition(Model):
    """An InfiniBand partition: who may talk to whom. The default partition is always there."""

    name: Annotated[Name, Field(description="Its name, unique in the site.", examples=["research"])]
    pkey: Annotated[
        PartitionKey, Field(description="Its key without the membership bit.", examples=["0x0002"])
    ]
    port_guids: Annotated[
        tuple[Guid, ...],
        Field(
            description="Ports that are full members; all ports if left out.",
            examples=[["0x0002c903000e0b73"]],
        ),
    ] = ()
    ipoib: Annotated[Switch, Field(description="Whether IP runs over it.")] = False


class Roce(Model):
    """Lossless Ethernet: one priority that is paused, marked by DSCP. The switches need the same."""

    priority: Annotated[
        int, Field(ge=1, le=7, description="The priority with flow control (PFC).", examples=[3]), WHOLE
    ] = 3
    dscp: Annotated[
        int, Field(ge=1, le=63, description="The DSCP that RDMA traffic carries.", examples=[26]), WHOLE
    ] = 26
    mtu: Annotated[
        int,
        Field(
            ge=1500,
            le=9978,
            description="MTU of the interfaces, in bytes.",
            examples=[9000],
            json_schema_extra={"unit": "bytes"},
        ),
        WHOLE,
    ] = 9000
    ecn: Annotated[Switch, Field(description="Congestion notification (DCQCN) on that priority.")] = True


class Fabric(Model):
    """The compute fabric of a rack site."""

    narrowed_by: ClassVar[Narrowed] = {
        "speed": ("kind", {"infiniband": ("hdr", "ndr", "xdr"), "roce": ("200gbe", "400gbe", "800gbe")})
    }

    kind: Annotated[Literal["infiniband", "roce"], Field(description="InfiniBand, or RDMA over Ethernet.")]
    speed: Annotated[
        Literal["hdr", "ndr", "xdr", "200gbe", "400gbe", "800gbe"], Field(description="Speed of a link.")
    ]
    topology: Annotated[
        Literal["rail-optimized", "fat-tree"], Field(description="How nodes and leaf switches are cabled.")
    ] = "rail-optimized"
    rails: Annotated[
        tuple[DeviceName, ...],
        Field(
            max_length=16,
            description="RDMA devices of a node by rail, as mlx5_0. Defaults to the catalog's.",
            examples=[["mlx5_0", "mlx5_3"]],
        ),
    ] = ()
    interfaces: Annotated[
        tuple[DeviceName, ...],
        Field(
            max_length=16,
            description="Network interfaces of the rails, in the same order (RoCE).",
            examples=[["eth0", "eth1"]],
        ),
    ] = ()
    ipoib: Annotated[Switch, Field(description="Whether nodes get IP addresses on InfiniBand.")] = False
    switches: Annotated[tuple[FabricSwitch, ...], Field(description="The switches, if known.")] = ()
    subnet_managers: Annotated[
        tuple[SubnetManager, ...], Field(description="Hosts that run opensm; none if a switch or UFM does.")
    ] = ()
    partitions: Annotated[tuple[FabricPartition, ...], Field(description="InfiniBand partitions.")] = ()
    roce: Annotated[Roce, Field(description="Settings of lossless Ethernet (RoCE only).")] = Roce()
