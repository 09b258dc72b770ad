"""On-premises sites: racks of one system type in one place."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.cloud import Team
from gpufleet.spec.fields import DECIMAL, WHOLE, Name, Text
from gpufleet.spec.quantity import Duration, EnergyPrice, HostRange, Money, Power
from gpufleet.spec.storage import OnPremStorage


class Fabric(Model):
    """The compute fabric of a rack site."""

    kind: Annotated[Literal["infiniband", "roce"], Field(description="InfiniBand, or RDMA over Ethernet.")]
    speed: Annotated[
        Literal["hdr", "ndr", "xdr", "200gbe", "400gbe", "800gbe"], Field(description="Speed of a link.")
    ]
    topology: Annotated[
        Literal["rail-optimized", "fat-tree"], Field(description="How nodes and leaf switches are cabled.")
    ] = "rail-optimized"


class SitePower(Model):
    """Electricity: capacity of a rack, power usage effectiveness (at least 1), price of energy."""

    per_rack: Annotated[Power, Field(description="What a rack can be fed.")]
    pue: Annotated[
        float, Field(ge=1.0, le=3.0, description="Power usage effectiveness of the hall."), DECIMAL
    ]
    price: Annotated[EnergyPrice, Field(description="What a kWh costs.")]


class Ownership(Model):
    """What a node cost and over how long it is written off; omitted means sunk, and not counted."""

    acquisition: Annotated[Money, Field(description="What one node cost.")]
    lifetime: Annotated[Duration, Field(description="Over how long it is written off.")]


class Ssh(Model):
    """How Ansible reaches the hosts."""

    user: Annotated[Text, Field(description="The user that Ansible logs in as.")] = "ubuntu"
    port: Annotated[int, Field(ge=1, le=65535, description="The port of sshd."), WHOLE] = 22
    domain: Annotated[str, Field(max_length=253, description="Appended to host names.")] = ""


class OnPremSite(Model):
    """Racks of one system type in one place. Host ranges are written `dgx[001-064]`."""

    site: Annotated[Name, Field(description="Its name, unique in the fleet.")]
    system: Annotated[Text, Field(description="The system type, as dgx-h100.")]
    nodes: Annotated[HostRange, Field(description="The GPU nodes.")]
    bmc: Annotated[HostRange | None, Field(description="Management controllers, in the nodes' order.")] = None
    controllers: Annotated[HostRange | None, Field(description="Hosts of the scheduler's controllers.")] = (
        None
    )
    login: Annotated[HostRange | None, Field(description="Hosts that people log in to.")] = None
    network: Annotated[Text | None, Field(description="The site's addresses, as 10.60.0.0/22.")] = None
    fabric: Annotated[Fabric, Field(description="The compute fabric.")]
    scheduler: Annotated[Literal["slurm", "kubernetes"], Field(description="Who places jobs.")] = "slurm"
    power: Annotated[SitePower | None, Field(description="Electricity, for the cost of running.")] = None
    ownership: Annotated[Ownership | None, Field(description="What nodes cost, if it is not sunk.")] = None
    ssh: Annotated[Ssh, Field(description="How Ansible logs in.")] = Ssh()
    storage: Annotated[tuple[OnPremStorage, ...], Field(description="File systems that nodes mount.")] = ()
    teams: Annotated[tuple[Team, ...], Field(description="Accounts with GPU limits.")] = ()
