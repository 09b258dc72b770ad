"""The Slurm of a cloud site: who launches its nodes, by which rules, and the servers of one in the cloud."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from gpufleet.plan.image_models import ImageKind

SHARED, STATE = "shared", "state"
"""What the file systems of servers are called besides the site: of users, and of controllers."""

EFS_OPTIONS = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,_netdev,nofail"
"""Mount options of EFS, which has no NFS 4.2 (EFS User Guide, "Recommended NFS mount settings")."""


class BurstPlan(Struct, frozen=True):
    """Which waiting jobs of the racks may use cloud nodes: those of `teams` in `partitions` that waited
    `after_s`, on nodes of `groups`, whose jobs may cost `monthly` USD in a month.
    """

    teams: tuple[str, ...]
    partitions: tuple[str, ...]
    groups: tuple[str, ...]
    after_s: int
    monthly: Decimal


class ServerPlan(Struct, frozen=True):
    """An instance that runs Slurm's controllers or that people log in to. `name` is the host's, `label` what
    its resource is called besides the servers', `address` its private one."""

    name: str
    label: str
    role: Literal["controller", "login"]
    zone: str
    address: str
    instance_type: str
    volume_gib: int


class SlurmServersPlan(Struct, frozen=True):
    """The servers of a site. `reserved` is the block of addresses that is kept for them, by zone.

    `image` is an AMI id or an SSM parameter, as `image_kind` says. `keys` are public keys of `ssh_user`.
    `shared` is where a file system for users is mounted, None without one; `shares_state` says whether
    there is one for the state of two controllers.
    """

    servers: tuple[ServerPlan, ...]
    reserved: Mapping[str, str]
    image: str
    image_kind: ImageKind
    ssh_user: str
    keys: tuple[str, ...]
    access: Literal["ssm", "direct"]
    shared: str | None
    shares_state: bool

    @property
    def file_systems(self) -> tuple[str, ...]:
        """What its file systems are called besides the site: `shared` for users, `state` for controllers."""
        return (*([SHARED] if self.shared else []), *([STATE] if self.shares_state else []))


class CloudSlurmPlan(Struct, frozen=True):
    """Who launches the nodes of a cloud site, and what the nodes need to join.

    `controllers` is the rack site, or the site itself if it has `servers`; `addresses` are those of its
    controllers with their port, `network` its addresses (CIDR). `identity` is the ARN of the controllers' own
    credentials, empty for servers, whose role the stack makes. `munge_parameter` is the name of the SSM
    parameter with the cluster's munge key.
    """

    controllers: str
    addresses: tuple[str, ...]
    network: str
    identity: str
    munge_parameter: str
    suspend_s: int
    resume_s: int
    retry_s: int
    burst: BurstPlan | None
    servers: SlurmServersPlan | None = None
