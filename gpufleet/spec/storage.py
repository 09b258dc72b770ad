"""Shared storage of a site, in the cloud and on the racks."""

from typing import Annotated, Literal

from pydantic import Field

from gpufleet.kinds import METADATA_IOPS, WrittenDeployment
from gpufleet.spec.base import Model
from gpufleet.spec.fields import (
    WHOLE,
    AbsolutePath,
    BucketName,
    Code,
    KmsKey,
    MountOption,
    MountSource,
    Name,
    S3Path,
    Switch,
)
from gpufleet.spec.quantity import Duration, LustreSize, ThroughputPerTiB


class Lustre(Model):
    """FSx for Lustre. `throughput` belongs to persistent types; `import_from` is `s3://bucket/prefix`.

    The bucket of `import_from` is created when the site declares a bucket of that name, and must
    exist otherwise. `backups` is how long daily backups are kept.
    """

    capacity: Annotated[
        LustreSize,
        Field(description="1200 GiB or multiples of 2400 GiB; with EFA larger steps by throughput."),
    ]
    deployment: Annotated[
        WrittenDeployment,
        Field(description="Replicated SSD (persistent) or unreplicated (scratch)."),
    ] = "persistent-2"
    throughput: Annotated[
        ThroughputPerTiB | None, Field(description="Throughput tier of a persistent file system.")
    ] = None
    efa: Annotated[Switch, Field(description="EFA to the disks (persistent-2 only, fixed at creation).")] = (
        False
    )
    metadata_iops: Annotated[
        Annotated[int, Field(ge=METADATA_IOPS[0], le=METADATA_IOPS[-1]), WHOLE] | None,
        Field(
            description="Metadata IOPS, above those that AWS includes in the capacity without a charge.",
            examples=[6000],
            json_schema_extra={"unit": "operations per second"},
        ),
    ] = None
    import_from: Annotated[
        S3Path | None,
        Field(
            description="The bucket and prefix that files come from.", examples=["s3://atlas-datasets/train"]
        ),
    ] = None
    export: Annotated[Switch, Field(description="Whether changed files go back to `import_from`.")] = False
    compression: Annotated[Literal["lz4", "none"], Field(description="Compression of data on disk.")] = "lz4"
    backups: Annotated[Duration | None, Field(description="How long daily backups are kept.")] = None
    zone: Annotated[
        Code | None,
        Field(description="Its zone; the first of the site if left out.", examples=["us-east-1a"]),
    ] = None
    kms_key: Annotated[
        KmsKey | None,
        Field(
            description="ARN of the KMS key (persistent types only); a key of its own is made if left out.",
            examples=["arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"],
        ),
    ] = None


class Bucket(Model):
    """An S3 bucket: private, encrypted, TLS only. `expire_after` deletes objects by age."""

    name: Annotated[
        BucketName, Field(description="The bucket's name, unique in all of AWS.", examples=["atlas-datasets"])
    ]
    versioning: Annotated[Switch, Field(description="Whether old versions of objects are kept.")] = True
    expire_after: Annotated[Duration | None, Field(description="Objects older than this are deleted.")] = None
    kms_key: Annotated[
        KmsKey | None,
        Field(
            description="ARN of the KMS key; a key of its own is made if left out.",
            examples=["arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"],
        ),
    ] = None


class Storage(Model):
    """Shared storage of a site: exactly one kind. `mount` is where nodes see it (not for buckets)."""

    exactly_one_of = ("lustre", "bucket")

    name: Annotated[Name, Field(description="Its name, unique in the site.", examples=["scratch"])]
    lustre: Annotated[Lustre | None, Field(description="FSx for Lustre.")] = None
    bucket: Annotated[Bucket | None, Field(description="An S3 bucket.")] = None
    mount: Annotated[
        AbsolutePath | None, Field(description="Where nodes see a file system.", examples=["/fsx/scratch"])
    ] = None


class OnPremStorage(Model):
    """A file system that nodes mount. The clients of beegfs, weka and gpfs come from their vendors.

    `source` is `host:/export` (nfs), `mgs@tcp:/fs` (lustre), the management host (beegfs),
    `backend,backend/fs` (weka), or the name of the file system in the node's cluster (gpfs).
    """

    name: Annotated[Name, Field(description="Its name, unique in the site.", examples=["home"])]
    kind: Annotated[
        Literal["nfs", "lustre", "beegfs", "weka", "gpfs"],
        Field(description="The file system, or its protocol; gpfs is IBM Storage Scale."),
    ]
    source: Annotated[
        MountSource,
        Field(
            description="host:/export (nfs), mgs@tcp:/fs (lustre), mgmtd01 (beegfs), weka01,weka02/fs (weka),"
            " fs (gpfs).",
            examples=["nas01:/export/home"],
        ),
    ]
    mount: Annotated[AbsolutePath, Field(description="Where nodes see it.", examples=["/shared/home"])]
    options: Annotated[
        tuple[MountOption, ...],
        Field(
            description="Mount options of beegfs, weka and gpfs; nosuid and nodev are always set.",
            examples=[["noatime", "num_cores=2"]],
        ),
    ] = ()
