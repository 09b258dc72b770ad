"""What a rack site's roles need to know beyond its hosts: fabric, Slurm, people, drives, reboots."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from gpufleet.plan.gpu_sharing import SharingKind


class TaintPlan(Struct, frozen=True):
    """A Kubernetes taint."""

    key: str
    value: str
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"]


class SubnetManagerPlan(Struct, frozen=True):
    """A host that runs opensm. The running one with the highest priority is master."""

    host: str
    priority: int
    port_guid: str | None


class FabricPartitionPlan(Struct, frozen=True):
    """An InfiniBand partition; without `port_guids` all ports are full members."""

    name: str
    pkey: str
    port_guids: tuple[str, ...]
    ipoib: bool


class SlurmSwitchPlan(Struct, frozen=True):
    """A line of topology.conf: hosts below it, or switches below it. Each host is below one switch."""

    name: str
    hosts: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


class SlurmPartitionPlan(Struct, frozen=True):
    """A partition. `max_minutes` None is no limit; without `accounts` all may use it."""

    name: str
    hosts: tuple[str, ...]
    default: bool
    max_minutes: int | None
    priority: int
    accounts: tuple[str, ...]

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return len(self.hosts)


class SlurmQosPlan(Struct, frozen=True):
    """A QOS. None is no limit. Jobs of the QOS in `preempts` make room for its jobs."""

    name: str
    priority: int
    max_gpus_per_user: int | None
    max_minutes: int | None
    preempts: tuple[str, ...]


class SlurmAccountPlan(Struct, frozen=True):
    """A team's account: the GPUs that it may hold at once, its default QOS, the users in it."""

    name: str
    gpus: int
    qos: str
    users: tuple[str, ...]


class SlurmPlan(Struct, frozen=True):
    """Slurm of a rack site. Weights are TRES billing weights: of a GPU, a processor, a GiB.

    `state` is the NFS export (`host:/export`) on which the controllers keep their state, None where a
    single one keeps it on its own disk.
    """

    cluster: str
    state: str | None
    partitions: tuple[SlurmPartitionPlan, ...]
    qos_settings: tuple[SlurmQosPlan, ...]
    accounts: tuple[SlurmAccountPlan, ...]
    switches: tuple[SlurmSwitchPlan, ...]
    preemption: Literal["none", "requeue", "cancel"]
    billing_gpu: float
    billing_cpu: float
    billing_memory_gib: float
    health_check: bool
    ssh_requires_job: bool
    reserved_cpus: int
    reserved_memory_mib: int

    @property
    def qos(self) -> tuple[str, ...]:
        """The names of the QOS."""
        return tuple(each.name for each in self.qos_settings)

    @property
    def units(self) -> int:
        """How many switches have nodes below them."""
        return sum(1 for each in self.switches if each.hosts)


class KubernetesGroupPlan(Struct, frozen=True):
    """GPU nodes that are used alike. `labels` are the user's own.

    `sharing` is how pods share a GPU, and `replicas` how many of them do (1 where none do).
    Each GPU is divided into `mig_devices` instances of `mig_profile`; None and 1 where it is whole.
    """

    name: str
    hosts: tuple[str, ...]
    labels: Mapping[str, str]
    taints: tuple[TaintPlan, ...]
    sharing: SharingKind
    replicas: int
    mig_profile: str | None
    mig_devices: int

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return len(self.hosts)


class RackKubernetesPlan(Struct, frozen=True):
    """Kubernetes of a rack site.

    `version` is the minor version; the software channel has the patch. `endpoint` is the virtual
    address, None where a single member has none. `router_id` is the number by which members find
    each other (VRRP, 1 to 255). `host_network` are teams whose pods may use the network of their node.
    `node_labels` are all labels of each GPU node, gpufleet's and the user's.
    """

    version: str
    endpoint: str | None
    port: int
    router_id: int
    members: tuple[str, ...]
    pod_network: str
    service_network: str
    cni: Literal["calico", "cilium", "flannel"]
    network_policies: bool
    pod_security: Literal["privileged", "baseline", "restricted"]
    host_network: tuple[str, ...]
    node_groups: tuple[KubernetesGroupPlan, ...]
    node_labels: Mapping[str, Mapping[str, str]]
    kueue: bool
    gpu_operator: bool
    network_operator: bool
    backup_folder: str
    backup_keep: int
    backup_every_s: int
    reserved_cpus: int
    reserved_memory_mib: int


class BackupTargetPlan(Struct, frozen=True):
    """The store of copies of backups, with the fields of its kind; `keep` 0 keeps all."""

    kind: Literal["s3", "nfs", "rsync"]
    place: str
    endpoint: str | None
    region: str | None
    port: int | None
    host_key: str | None
    keep: int


class MonitoringPlan(Struct, frozen=True):
    """Monitoring of a rack site. None is what the fleet file does not say.

    Seconds, GiB, kW of one rack, USD a kWh, USD that a node costs in an hour of its lifetime. `racks` are
    names with their nodes.
    """

    host: str
    interval_s: int
    retention_s: int
    retention_gib: int | None
    remote_write_url: str | None
    remote_write_user: str | None
    webhook_url: str | None
    webhook_token: bool
    slack_channel: str | None
    heartbeat: bool
    email_to: tuple[str, ...]
    email_sender: str | None
    email_server: str | None
    email_user: str | None
    grafana: bool
    open_to: tuple[str, ...]
    racks: Mapping[str, tuple[str, ...]]
    rack_kw: Decimal | None
    pue: float | None
    energy_price: Decimal | None
    node_hour_cost: Decimal | None


class UserPlan(Struct, frozen=True):
    """A user with the same UID and GID on all hosts. `ssh_keys` are public keys."""

    name: str
    uid: int
    gid: int
    groups: tuple[str, ...]
    ssh_keys: tuple[str, ...]
    sudo: bool


class ManagementPlan(Struct, frozen=True):
    """Access to management controllers and their expected identity.

    `model` is the expected model, None if serial numbers identify the controllers; `power_cap_w` in W.
    Certificates (SHA-256) and serial numbers are by node.
    """

    protocol: Literal["redfish", "ipmi"]
    port: int
    user: str
    ca: str | None
    certificates: Mapping[str, str]
    model: str | None
    serials: Mapping[str, str]
    firmware: Mapping[str, str]
    power_cap_w: int | None
    boot_order: tuple[str, ...]
    bios: Mapping[str, str]


class MigPlan(Struct, frozen=True):
    """GPUs of nodes that are divided alike, and how many instances of each profile they have.

    `gpus` are indexes from 0; none is all of them.
    """

    hosts: tuple[str, ...]
    gpus: tuple[int, ...]
    profiles: Mapping[str, int]

    @property
    def nodes(self) -> int:
        """How many nodes are divided so."""
        return len(self.hosts)


SoftwareSource = Literal["distribution", "nvidia", "vendor", "mirror", "site", "host", "built", "none"]
"""Where a piece of software comes from: the distribution, NVIDIA's or another vendor's repository, the site's
mirror, a repository that the site names or that the hosts already have, built, or nowhere: not installed."""


class RackSoftwarePlan(Struct, frozen=True):
    """A piece of software of a rack site. `version` is None where only the host knows it."""

    name: str
    version: str | None
    source: SoftwareSource
    note: str = ""


class RackPlan(Struct, frozen=True):
    """What the roles of one rack site install. `slurm` and `kubernetes` are None where they place no jobs.

    `link_gbps` is the expected speed of all ports of the fabric. `rails` (RDMA devices) are those of the
    fleet file, else of the catalog, and empty if neither has them; `interfaces` are empty if the fleet file
    has none. `root_guids` are the switches of the highest tier that was declared with a GUID.
    The RoCE settings apply only to RoCE sites.

    `groups` are group IDs by name. `local_nvme` is the mount point of the nodes' drives, None if they are not
    used; `local_nvme_drives` None means all unused ones. `reboot_batch` counts hosts. `management_settings`,
    `mig`, `backups`, `monitoring_settings` and the fields of DOCA are None if they are not declared.
    """

    network: str | None
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
    slurm: SlurmPlan | None
    kubernetes: RackKubernetesPlan | None
    groups: Mapping[str, int]
    people: tuple[UserPlan, ...]
    local_nvme: str | None
    local_nvme_cache: str | None
    local_nvme_drives: int | None
    time_servers: tuple[str, ...]
    package_mirror: str | None
    image_mirror: str | None
    doca_repository: str | None
    doca_key: str | None
    doca_key_fingerprint: str | None
    host_addresses: Mapping[str, str]
    reboot_batch: int
    reboot_timeout_s: int
    fingerprints: Mapping[str, str]
    monitoring_settings: MonitoringPlan | None = None
    management_settings: ManagementPlan | None = None
    mig: tuple[MigPlan, ...] | None = None
    backups: BackupTargetPlan | None = None

    @property
    def users(self) -> tuple[str, ...]:
        """The names of the people."""
        return tuple(each.name for each in self.people)

    @property
    def monitoring(self) -> str | None:
        """The host that runs monitoring."""
        return None if self.monitoring_settings is None else self.monitoring_settings.host

    @property
    def management(self) -> str | None:
        """The protocol of the management controllers."""
        return None if self.management_settings is None else self.management_settings.protocol
