"""Teams of a site: what they may hold at once, and the storage that they reach."""

from typing import Annotated, Literal

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import WHOLE, Name


class Team(Model):
    """A team of a site: its namespace or account, and the GPUs it may hold at once."""

    name: Annotated[Name, Field(description="The team's name.", examples=["research"])]
    gpus: Annotated[
        int,
        Field(
            ge=0,
            le=1_000_000,
            description="GPUs it may hold at once.",
            examples=[64],
            json_schema_extra={"unit": "GPUs"},
        ),
        WHOLE,
    ]
    priority: Annotated[Literal["low", "normal", "high"], Field(description="Whose jobs go first.")] = (
        "normal"
    )


class TeamBucket(Model):
    """A bucket of the site that a team's pods reach with the service account `gpufleet-data`.

    They read and write below `<team>/`, and read below `shared/`; with `access: read` they only read. With
    `mount`, two claims in the team's namespace show these folders: `<storage>` and `<storage>-shared`.
    """

    storage: Annotated[Name, Field(description="The bucket's name in `storage`.", examples=["datasets"])]
    access: Annotated[
        Literal["read-write", "read"], Field(description="What they may do below the team's prefix.")
    ] = "read-write"
    mount: Annotated[
        bool, Field(description="Whether pods mount it as folders too, with Mountpoint for Amazon S3.")
    ] = False


class TeamFileSystem(Model):
    """A file system of the site that a team's pods mount by a claim of the same name, in the team's
    namespace."""

    storage: Annotated[Name, Field(description="The file system's name in `storage`.", examples=["shared"])]
    access: Annotated[
        Literal["read-write", "read"], Field(description="What they may do with its files.")
    ] = "read-write"


class KubernetesTeam(Team):
    """A team of an EKS site: its namespace, the GPUs and Neuron devices it may hold, and the storage that it
    reaches."""

    buckets: Annotated[tuple[TeamBucket, ...], Field(description="Buckets that its pods reach.")] = ()
    file_systems: Annotated[
        tuple[TeamFileSystem, ...], Field(description="File systems that its pods mount.")
    ] = ()
    gpu_shares: Annotated[
        int,
        Field(
            ge=0,
            le=1_000_000,
            description="Shares of GPUs (time slices, MPS, MIG devices) it may hold at once, of each kind.",
            examples=[16],
            json_schema_extra={"unit": "shares"},
        ),
        WHOLE,
    ] = 0
    neuron_devices: Annotated[
        int,
        Field(
            ge=0,
            le=1_000_000,
            description="Neuron devices (Trainium, Inferentia) it may hold at once.",
            examples=[32],
            json_schema_extra={"unit": "devices"},
        ),
        WHOLE,
    ] = 0
