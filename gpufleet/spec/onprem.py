"""On-premises sites: racks of one system type in one place."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import (
    DECIMAL,
    WHOLE,
    AbsolutePath,
    Cidr,
    Code,
    Domain,
    Fingerprint,
    HostName,
    HostOrAddress,
    KeyFingerprint,
    KeySource,
    LoginName,
    Name,
    PackageMirror,
    WebFolder,
)
from gpufleet.spec.management import Management, MigLayout
from gpufleet.spec.quantity import Duration, EnergyPrice, HostList, HostRange, Money, Percent, Power
from gpufleet.spec.rack_backups import Backups
from gpufleet.spec.rack_fabric import Fabric as Fabric
from gpufleet.spec.rack_kubernetes import RackKubernetes
from gpufleet.spec.rack_monitoring import Monitoring
from gpufleet.spec.rack_slurm import RackSlurm
from gpufleet.spec.storage import OnPremStorage
from gpufleet.spec.teams import Team
from gpufleet.spec.users import UserGroups, Users


class SitePower(Model):
    """Electricity: capacity of a rack, power usage effectiveness (at least 1), price of energy."""

    per_rack: Annotated[Power, Field(description="What a rack can be fed.")]
    pue: Annotated[
        float,
        Field(ge=1.0, le=3.0, description="Power usage effectiveness of the hall.", examples=[1.25]),
        DECIMAL,
    ]
    price: Annotated[EnergyPrice, Field(description="What a kWh costs.")]


class Ownership(Model):
    """What a node cost and over how long it is written off; omitted means sunk, and not counted."""

    acquisition: Annotated[Money, Field(description="What one node cost.")]
    lifetime: Annotated[Duration, Field(description="Over how long it is written off.")]


class RunningCosts(Model):
    """What a site costs per month besides electricity; what is left out is not counted."""

    colocation: Annotated[
        Money | None, Field(description="Space, cooling and remote hands per month.", examples=["42000 USD"])
    ] = None
    support: Annotated[
        Money | None, Field(description="Support contracts per month.", examples=["31000 USD"])
    ] = None
    staff: Annotated[
        Money | None, Field(description="The people who run it, per month.", examples=["25000 USD"])
    ] = None


class Ssh(Model):
    """How Ansible reaches the hosts."""

    user: Annotated[
        LoginName, Field(description="The user that Ansible logs in as.", examples=["ubuntu"])
    ] = "ubuntu"
    port: Annotated[int, Field(ge=1, le=65535, description="The port of sshd.", examples=[22]), WHOLE] = 22
    domain: Annotated[Domain, Field(description="Appended to host names.", examples=["dc1.example.com"])] = ""
    fingerprints: dict[HostName, Fingerprint] = Field(
        default_factory=dict,
        description="SHA256 fingerprints of host keys, by host name.",
        examples=[{"ctl01": "SHA256:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}],
    )


class LocalNvme(Model):
    """A node's own NVMe drives, striped (RAID 0): fast, and gone when one of them fails."""

    mount: Annotated[
        AbsolutePath, Field(description="Where the scratch file system is.", examples=["/raid"])
    ] = "/raid"
    cache: Annotated[
        AbsolutePath | None,
        Field(description="A folder of it that keeps data sets between jobs.", examples=["/raid/cache"]),
    ] = None
    drives: Annotated[
        Annotated[int, Field(ge=1, le=64), WHOLE] | None,
        Field(
            description="How many there have to be; as many as are unused if left out.",
            examples=[8],
            json_schema_extra={"unit": "drives"},
        ),
    ] = None


class Doca(Model):
    """NVIDIA's package repository of DOCA-OFED, or a copy of it, and the key that signs it."""

    repository: Annotated[
        WebFolder | None,
        Field(
            description="Its web folder; NVIDIA's of the system and the channel's release if left out.",
            examples=["https://mirror.example.com/doca/3.4.0/ubuntu24.04/x86_64"],
        ),
    ] = None
    key: Annotated[
        KeySource | None,
        Field(
            description="Where its key is: a web address, or a file on the hosts; doca_keyring.gpg of the"
            " repository if left out.",
            examples=["/etc/ssl/doca_keyring.gpg"],
        ),
    ] = None
    fingerprint: Annotated[
        KeyFingerprint | None,
        Field(
            description="The fingerprint of the only key that is trusted; NVIDIA's if left out.",
            examples=["70454E6BF5D9C2D3B78709E8DC726C5E41B9CC50"],
        ),
    ] = None


class RackOfNodes(Model):
    """Nodes that stand in one rack: one feed supplies them, which `power.per_rack` is the capacity of."""

    name: Annotated[Name, Field(description="Its name, unique in the site.", examples=["rack-a1"])]
    nodes: Annotated[HostRange, Field(description="The GPU nodes in it.")]


class Reboot(Model):
    """How nodes are rebooted when a change needs it."""

    batch: Annotated[Percent, Field(description="Share of a site's GPU nodes at once.")] = Percent(25)
    timeout: Annotated[Duration, Field(description="How long a node may take to come back.")] = Duration(
        timedelta(minutes=20)
    )


class OnPremSite(Model):
    """Racks of one system type in one place. Host ranges are written `dgx[001-064]`."""

    site: Annotated[Name, Field(description="Its name, unique in the fleet.", examples=["dc1"])]
    system: Annotated[Code, Field(description="The system type, as dgx-h100.", examples=["dgx-h100"])]
    nodes: Annotated[HostRange, Field(description="The GPU nodes.")]
    bmc: Annotated[
        HostRange | None,
        Field(description="Management controllers, in the nodes' order.", examples=["bmc[001-064]"]),
    ] = None
    controllers: Annotated[
        HostList | None,
        Field(description="Hosts of the scheduler's controllers.", examples=["ctl[01-02]"]),
    ] = None
    login: Annotated[
        HostList | None, Field(description="Hosts that people log in to.", examples=["login[01-02]"])
    ] = None
    network: Annotated[
        Cidr | None, Field(description="The site's addresses, as 10.60.0.0/22.", examples=["10.60.0.0/22"])
    ] = None
    fabric: Annotated[Fabric, Field(description="The compute fabric.")]
    scheduler: Annotated[Literal["slurm", "kubernetes"], Field(description="Who places jobs.")] = "slurm"
    power: Annotated[SitePower | None, Field(description="Electricity, for the cost of running.")] = None
    ownership: Annotated[Ownership | None, Field(description="What nodes cost, if it is not sunk.")] = None
    running_costs: Annotated[
        RunningCosts | None, Field(description="Colocation, support and staff per month.")
    ] = None
    ssh: Annotated[Ssh, Field(description="How Ansible logs in.")] = Ssh()
    racks: Annotated[tuple[RackOfNodes, ...], Field(description="Which nodes stand in which rack.")] = ()
    storage: Annotated[tuple[OnPremStorage, ...], Field(description="File systems that nodes mount.")] = ()
    teams: Annotated[tuple[Team, ...], Field(description="Accounts with GPU limits.")] = ()
    slurm: Annotated[RackSlurm, Field(description="Partitions, QOS and accounting.")] = RackSlurm()
    kubernetes: Annotated[
        RackKubernetes, Field(description="Control plane, networks and groups of nodes.")
    ] = RackKubernetes()
    groups: UserGroups = ()
    users: Users = ()
    local_nvme: Annotated[
        LocalNvme | None,
        Field(description="Scratch file system on the nodes' local drives. By default they are not used."),
    ] = None
    time_servers: Annotated[
        tuple[HostOrAddress, ...],
        Field(description="NTP servers; the distribution's if left out.", examples=[["ntp1.example.com"]]),
    ] = ()
    package_mirror: PackageMirror = None
    image_mirror: Annotated[
        WebFolder | None,
        Field(
            description="A registry that has container images of all registries, under their own names.",
            examples=["https://registry.example.com"],
        ),
    ] = None
    doca: Annotated[Doca, Field(description="Where the packages of DOCA-OFED come from.")] = Doca()
    addresses: dict[HostName, HostOrAddress] = Field(
        default_factory=dict,
        description="Addresses of hosts that no name server resolves, by host name.",
        examples=[{"dgx001": "10.60.0.11"}],
    )
    reboot: Annotated[Reboot, Field(description="How nodes are rebooted.")] = Reboot()
    monitoring: Annotated[
        Monitoring | None, Field(description="Prometheus and what belongs to it; none if left out.")
    ] = None
    backups: Annotated[
        Backups | None,
        Field(description="Where backups are copied to; they stay on the controllers if left out."),
    ] = None
    management: Annotated[
        Management | None,
        Field(description="Settings of management controllers. By default they are not changed."),
    ] = None
    mig: Annotated[
        tuple[MigLayout, ...] | None,
        Field(description="MIG layouts of GPUs; [] disables MIG on all. By default MIG is not changed."),
    ] = None

    def full_name(self, host: str) -> str:
        """The name by which a host is known to name servers."""
        return f"{host}.{self.ssh.domain}" if self.ssh.domain else host

    def address_of(self, host: str) -> str:
        """Where a host is reached: its address in the fleet file, else its full name."""
        return self.addresses.get(host) or self.full_name(host)
