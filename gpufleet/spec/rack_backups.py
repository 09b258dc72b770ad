"""Where backups of a rack site are copied to: S3, an NFS export, or a host with rsync over ssh.

Copies are encrypted for the secret GPUFLEET_SECRET_BACKUP_KEY_<SITE>; hosts have only its public part.
"""

from typing import Annotated

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import (
    WHOLE,
    Code,
    NfsExport,
    RsyncFolder,
    S3Path,
    SshKey,
    WebFolder,
)


class S3Backups(Model):
    """S3, or a store with its interface. Its keys are the secret GPUFLEET_SECRET_BACKUP_S3_KEY_<SITE>."""

    url: Annotated[
        S3Path, Field(description="Bucket and prefix of the copies.", examples=["s3://atlas-backups/dc1"])
    ]
    endpoint: Annotated[
        WebFolder | None,
        Field(description="Address of another store than AWS's.", examples=["https://s3.example.com"]),
    ] = None
    region: Annotated[
        Code | None, Field(description="Its region; us-east-1 if left out.", examples=["eu-central-1"])
    ] = None


class NfsBackups(Model):
    """An NFS export, mounted only while copies are made."""

    source: Annotated[
        NfsExport, Field(description="The export, as host:/path.", examples=["nas01:/export/backups"])
    ]


class RsyncBackups(Model):
    """A folder that rsync reaches over ssh. The key is the secret GPUFLEET_SECRET_BACKUP_SSH_KEY_<SITE>."""

    to: Annotated[
        RsyncFolder,
        Field(description="user@host:/path of the folder.", examples=["backup@vault.example.com:/srv/dc1"]),
    ]
    port: Annotated[int, Field(ge=1, le=65_535, description="The port of sshd.", examples=[22]), WHOLE] = 22
    host_key: Annotated[
        SshKey,
        Field(
            description="The host's public key; no other is accepted.",
            examples=["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample"],
        ),
    ]


class Backups(Model):
    """The remote target of a site's backups: exactly one store."""

    exactly_one_of = ("s3", "nfs", "rsync")

    s3: Annotated[S3Backups | None, Field(description="S3 or a store with its interface.")] = None
    nfs: Annotated[NfsBackups | None, Field(description="An NFS export.")] = None
    rsync: Annotated[RsyncBackups | None, Field(description="A host with rsync over ssh.")] = None
    keep: Annotated[
        int,
        Field(
            ge=0,
            le=10_000,
            description="How many copies of each host are kept; 0 leaves the removal to the store.",
            examples=[28],
            json_schema_extra={"unit": "copies"},
        ),
        WHOLE,
    ] = 28
