"""Controllers and login hosts of a Slurm that is in the cloud as a whole: EC2 instances of the site."""

from typing import Annotated, Literal

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import (
    WHOLE,
    AbsolutePath,
    Code,
    ImageReference,
    LoginName,
    PackageMirror,
    SshKey,
)
from gpufleet.spec.quantity import Size
from gpufleet.spec.rack_backups import Backups
from gpufleet.spec.rack_slurm import Billing, JobBilling, MoreQos, Preemption
from gpufleet.spec.teams import Team
from gpufleet.spec.users import UserGroups, Users

SERVER_TYPE = "m7i.xlarge"
SERVER_VOLUME = Size.of_gib(100)
LOGIN_HOSTS_MAX = 8

ServerType = Annotated[Code, Field(description="Their EC2 type.", examples=["m7i.xlarge"])]
ServerVolume = Annotated[Size, Field(description="Root volume of each.", examples=["100 GiB"])]


class SlurmController(Model):
    """Instances that run slurmctld. The first one has slurmdbd and its database too."""

    hosts: Annotated[
        int,
        Field(
            ge=1,
            le=2,
            description="1, or 2 with a backup.",
            examples=[2],
            json_schema_extra={"unit": "hosts"},
        ),
        WHOLE,
    ] = 1
    instance_type: ServerType = SERVER_TYPE
    volume: ServerVolume = SERVER_VOLUME


class SlurmLogin(Model):
    """Instances that people log in to."""

    hosts: Annotated[
        int,
        Field(
            ge=0,
            le=LOGIN_HOSTS_MAX,
            description="How many.",
            examples=[1],
            json_schema_extra={"unit": "hosts"},
        ),
        WHOLE,
    ] = 1
    instance_type: ServerType = SERVER_TYPE
    volume: ServerVolume = SERVER_VOLUME


class ServerSsh(Model):
    """How Ansible logs in to the servers. They have private addresses."""

    user: Annotated[LoginName, Field(description="The login name of the image.", examples=["ubuntu"])] = (
        "ubuntu"
    )
    keys: Annotated[
        tuple[SshKey, ...],
        Field(
            description="Public keys that may log in as this user; those of the image if left out.",
            examples=[["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample platform@example.com"]],
        ),
    ] = ()
    access: Annotated[
        Literal["ssm", "direct"],
        Field(
            description="ssm: by Session Manager. direct: this machine is in a network that reaches the site."
        ),
    ] = "ssm"


class SlurmServers(Model):
    """Controllers and login hosts in the site, and who may use its Slurm."""

    image: Annotated[
        ImageReference,
        Field(
            description="Their image, of Ubuntu 24.04 or Debian 12: an AMI id or an SSM parameter. Servers"
            " that exist keep theirs.",
            examples=["ami-0123456789abcdef0"],
        ),
    ]
    controllers: Annotated[SlurmController, Field(description="Hosts of slurmctld.")] = SlurmController()
    login: Annotated[SlurmLogin, Field(description="Hosts that people log in to.")] = SlurmLogin()
    ssh: Annotated[ServerSsh, Field(description="How Ansible logs in.")] = ServerSsh()
    shared: Annotated[
        AbsolutePath | None,
        Field(
            description="Where login hosts and nodes mount a file system of the site (EFS); none if left"
            " out.",
            examples=["/shared"],
        ),
    ] = None
    teams: Annotated[tuple[Team, ...], Field(description="Accounts with GPU limits.")] = ()
    groups: UserGroups = ()
    users: Users = ()
    qos: MoreQos = ()
    preemption: Preemption = "requeue"
    billing: JobBilling = Billing()
    package_mirror: PackageMirror = None
    backups: Annotated[
        Backups | None,
        Field(description="Where backups are copied to; they stay on the controllers if left out."),
    ] = None
