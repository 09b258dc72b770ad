"""SharedStorage: an FSx for Lustre file system, with its import and export of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component, Tags, encryption_key
from gpufleet.errors import InputError
from gpufleet.kinds import LustreDeployment

LUSTRE_PORTS = ((988, 988), (1018, 1023))
"""LNET's ports (FSx for Lustre user guide: file system access control with Amazon VPC)."""

LUSTRE_VERSION = "2.15"
"""The newest of FSx's long-term support versions, which EFA needs."""


@dataclass(frozen=True, kw_only=True)
class DataRepositoryArgs:
    """An S3 bucket that the file system shows as files. It follows new, changed and deleted objects; with
    `export` the bucket follows files too.
    """

    bucket: pulumi.Input[str]
    prefix: str = ""
    export: bool = False


@dataclass(frozen=True, kw_only=True)
class SharedStorageArgs:
    """Inputs of `SharedStorage`. Capacity in GiB, `throughput` in MB/s per TiB (persistent types only).

    `client_security_group_ids` are the groups of the nodes that mount it. `efa` also needs the nodes' EFA
    group, which the file system joins. `protect` prevents Pulumi from deleting or replacing the file
    system; `final_backup` creates a backup before a deletion. `kms_key_arn` is an existing key (persistent
    types only); without it the component creates one.
    """

    deployment_type: LustreDeployment | Literal["SCRATCH_1"]
    capacity_gib: int
    subnet_id: pulumi.Input[str]
    vpc_id: pulumi.Input[str]
    client_security_group_ids: Sequence[pulumi.Input[str]]
    throughput: int | None = None
    efa: bool = False
    efa_security_group_id: pulumi.Input[str] | None = None
    metadata_iops: int | None = None
    compression: Literal["LZ4", "NONE"] = "LZ4"
    backup_days: int = 0
    data_repository: DataRepositoryArgs | None = None
    kms_key_arn: pulumi.Input[str] | None = None
    protect: bool = True
    final_backup: bool = True
    tags: Tags


class SharedStorage(Component):
    """An encrypted Lustre file system that only its clients can reach.

    Persistent types use the given key or their own; scratch types always use a key that FSx manages. Nodes
    mount `<dns_name>@tcp:/<mount_name>`.
    """

    file_system_id: pulumi.Output[str]
    dns_name: pulumi.Output[str]
    mount_name: pulumi.Output[str]

    def __init__(
        self, name: str, args: SharedStorageArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        _check(name, args)
        super().__init__("gpufleet:storage:SharedStorage", name, args.tags, opts)
        persistent = args.deployment_type.startswith("PERSISTENT")
        group_id, rules = self._security_group(name, args)
        groups = [group_id]
        if args.efa and args.efa_security_group_id is not None:
            groups.append(pulumi.Output.from_input(args.efa_security_group_id))
        key_arn = args.kms_key_arn
        if persistent and key_arn is None:
            key = encryption_key(
                self, name, f"Lustre file system {name}", self.aws_context(), protect=args.protect
            )
            key_arn = key.arn
        system = aws.fsx.LustreFileSystem(
            name,
            deployment_type=args.deployment_type,
            storage_type="SSD",
            storage_capacity=args.capacity_gib,
            per_unit_storage_throughput=args.throughput,
            file_system_type_version=LUSTRE_VERSION if args.deployment_type != "SCRATCH_1" else None,
            subnet_ids=args.subnet_id,
            security_group_ids=groups,
            kms_key_id=key_arn,
            efa_enabled=True if args.efa else None,
            metadata_configuration=_metadata(args),
            data_compression_type=args.compression,
            automatic_backup_retention_days=args.backup_days if persistent else None,
            copy_tags_to_backups=True if persistent else None,
            # FSx cannot back up scratch file systems or those with a data repository.
            skip_final_backup=not (args.final_backup and persistent and args.data_repository is None),
            tags=self.tags(name),
            # FSx checks the groups' rules on creation, and fails if ports are closed.
            opts=self.child(protect=args.protect, depends_on=rules),
        )
        self.file_system_id = system.id
        self.dns_name = system.dns_name
        self.mount_name = system.mount_name
        if args.data_repository is not None:
            self._associate(name, args.data_repository)
        self.register_outputs(
            {"fileSystemId": self.file_system_id, "dnsName": self.dns_name, "mountName": self.mount_name}
        )

    def _security_group(
        self, name: str, args: SharedStorageArgs
    ) -> tuple[pulumi.Output[str], list[pulumi.Resource]]:
        """Create the file system's own group with Lustre's ports, for clients and between servers."""
        group = aws.ec2.SecurityGroup(
            name,
            description=f"Lustre servers of {name}",
            vpc_id=args.vpc_id,
            tags=self.tags(name),
            opts=self.child(),
        )
        group_id: pulumi.Output[str] = group.id
        rules = self._allow(f"{name}-servers", group_id, group_id)
        for number, client in enumerate(args.client_security_group_ids):
            # Servers call clients back (lock callbacks), so both groups allow both directions.
            rules += self._allow(f"{name}-client-{number}", group_id, client)
            rules += self._allow_in(f"{name}-callback-{number}", client, group_id)
        return group_id, rules

    def _allow(
        self, label: str, group_id: pulumi.Input[str], peer_id: pulumi.Input[str]
    ) -> list[pulumi.Resource]:
        outward = [
            aws.vpc.SecurityGroupEgressRule(
                f"{label}-out-{first}",
                security_group_id=group_id,
                description="Lustre",
                ip_protocol="tcp",
                from_port=first,
                to_port=last,
                referenced_security_group_id=peer_id,
                tags=self.tags(f"{label}-out-{first}"),
                opts=self.child(),
            )
            for first, last in LUSTRE_PORTS
        ]
        return [*self._allow_in(label, group_id, peer_id), *outward]

    def _allow_in(
        self, label: str, group_id: pulumi.Input[str], peer_id: pulumi.Input[str]
    ) -> list[pulumi.Resource]:
        return [
            aws.vpc.SecurityGroupIngressRule(
                f"{label}-in-{first}",
                security_group_id=group_id,
                description="Lustre",
                ip_protocol="tcp",
                from_port=first,
                to_port=last,
                referenced_security_group_id=peer_id,
                tags=self.tags(f"{label}-in-{first}"),
                opts=self.child(),
            )
            for first, last in LUSTRE_PORTS
        ]

    def _associate(self, name: str, repository: DataRepositoryArgs) -> None:
        events = ["NEW", "CHANGED", "DELETED"]
        aws.fsx.DataRepositoryAssociation(
            f"{name}-repository",
            file_system_id=self.file_system_id,
            file_system_path="/",
            data_repository_path=pulumi.Output.format("s3://{0}/{1}", repository.bucket, repository.prefix),
            batch_import_meta_data_on_create=True,
            delete_data_in_filesystem=False,
            s3=aws.fsx.DataRepositoryAssociationS3Args(
                auto_import_policy=aws.fsx.DataRepositoryAssociationS3AutoImportPolicyArgs(events=events),
                auto_export_policy=aws.fsx.DataRepositoryAssociationS3AutoExportPolicyArgs(events=events)
                if repository.export
                else None,
            ),
            tags=self.tags(f"{name}-repository"),
            # FSx rejects a second association with the same path or bucket prefix.
            opts=self.child(delete_before_replace=True),
        )


def _metadata(args: SharedStorageArgs) -> aws.fsx.LustreFileSystemMetadataConfigurationArgs | None:
    if args.metadata_iops is not None:
        return aws.fsx.LustreFileSystemMetadataConfigurationArgs(
            mode="USER_PROVISIONED", iops=args.metadata_iops
        )
    # EFA requires the configuration, but not a number of IOPS.
    return aws.fsx.LustreFileSystemMetadataConfigurationArgs(mode="AUTOMATIC") if args.efa else None


def _check(name: str, args: SharedStorageArgs) -> None:
    persistent = args.deployment_type.startswith("PERSISTENT")
    newest = args.deployment_type == "PERSISTENT_2"
    if args.efa and (not newest or args.efa_security_group_id is None):
        raise InputError(
            f"file system {name}: EFA needs deployment type PERSISTENT_2 and the nodes' EFA security group, "
            f"not {args.deployment_type} and {args.efa_security_group_id}",
            remedy="use PERSISTENT_2 and pass efa_security_group_id, or disable EFA",
        )
    if args.metadata_iops is not None and not newest:
        raise InputError(
            f"file system {name}: metadata IOPS are for PERSISTENT_2, not {args.deployment_type}",
            remedy="remove metadata_iops",
        )
    if persistent != (args.throughput is not None):
        raise InputError(
            f"file system {name}: throughput {args.throughput} with {args.deployment_type}",
            remedy="set throughput for persistent types, and not for scratch types",
        )
    if args.kms_key_arn is not None and not persistent:
        raise InputError(
            f"file system {name}: FSx encrypts {args.deployment_type} with a key that it manages",
            remedy="remove kms_key_arn, or use a persistent type",
        )
    if args.backup_days and (not persistent or args.data_repository is not None):
        raise InputError(
            f"file system {name}: FSx cannot back up a scratch file system or one with a data repository",
            remedy="set backup_days=0; with a data repository the bucket is the permanent copy",
        )
