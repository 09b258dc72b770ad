"""What a rack site's roles need to know beyond its hosts: fabric, Slurm, people, drives, reboots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SubnetManagerPlan:
    """A host that runs opensm. The running one with the highest priority is master."""

    host: str
    priority: int
    port_guid: str | None


@dataclass(frozen=True, slots=True)
class FabricPartitionPlan:
    """An InfiniBand partition; without `port_guids` all ports are full members."""

    name: str
    pkey: str
    port_guids: tuple[str, ...]
    ipoib: bool


@dataclass(frozen=True, slots=True)
class FabricPlan:
    """The compute fabric. `rails` (RDMA devices) and `interfaces` are empty where nobody declared them.

    `link_gbps` is the speed that every port has to show. `root_guids` are the switches of the
    highest tier that was declared with a GUID. The RoCE settings hold on RoCE sites only.
    """

    link_gbps: int
    rails: tuple[str, ...]
    interfaces: tuple[str, ...]
    ipoib: bool
    subnet_managers: tuple[SubnetManagerPlan, ...]
    partitions: tuple[FabricPartitionPlan, ...]
    root_guids: tuple[str, ...]
    roce_priority: int
    roce_dscp: int
    roce_mtu: int
    roce_ecn: bool


@dataclass(frozen=True, slots=True)
class SlurmSwitchPlan:
    """A line of topology.conf: nodes below it, or switches below it. Each node is below one switch."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SlurmPartitionPlan:
    """A partition. `max_minutes` None is no limit; without `accounts` all may use it."""

    name: str
    nodes: tuple[str, ...]
    default: bool
    max_minutes: int | None
    priority: int
    accounts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlurmQosPlan:
    """A QOS. None is no limit. Jobs of the QOS in `preempts` make room for its jobs."""

    name: str
    priority: int
    max_gpus_per_user: int | None
    max_minutes: int | None
    preempts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlurmAccountPlan:
    """A team's account: the GPUs that it may hold at once, its default QOS, the users in it."""

    name: str
    gpus: int
    qos: str
    users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlurmPlan:
    """Slurm of a rack site. Weights are TRES billing weights: of a GPU, a processor, a GiB.

    `state` is the NFS export (`host:/export`) on which the controllers keep their state, None where a
    single one keeps it on its own disk.
    """

    cluster: str
    state: str | None
    partitions: tuple[SlurmPartitionPlan, ...]
    qos: tuple[SlurmQosPlan, ...]
    accounts: tuple[SlurmAccountPlan, ...]
    switches: tuple[SlurmSwitchPlan, ...]
    preemption: Literal["none", "requeue", "cancel"]
    billing_gpu: float
    billing_cpu: float
    billing_memory_gib: float
    health_check: bool
    reserved_cpus: int
    reserved_memory_mib: int


@dataclass(frozen=True, slots=True)
class UserPlan:
    """A person with the same numbers on every host. `ssh_keys` are public keys."""

    name: str
    uid: int
    gid: int
    groups: tuple[str, ...]
    ssh_keys: tuple[str, ...]
    sudo: bool


@dataclass(frozen=True, slots=True)
class RackPlan:
    """What the roles of one rack site install. `slurm` is None where Slurm does not place jobs.

    `nvme_mount` is None where the nodes' drives are left alone; `nvme_drives` None is "all unused
    ones". `reboot_batch` counts hosts.
    """

    network: str | None
    fabric: FabricPlan
    slurm: SlurmPlan | None
    groups: tuple[tuple[str, int], ...]
    users: tuple[UserPlan, ...]
    nvme_mount: str | None
    nvme_cache: str | None
    nvme_drives: int | None
    time_servers: tuple[str, ...]
    package_mirror: str | None
    host_addresses: tuple[tuple[str, str], ...]
    reboot_batch: int
    reboot_timeout_s: int
    fingerprints: tuple[tuple[str, str], ...]
