"""FSx for Lustre file systems: PERSISTENT_2, EFA, metadata, update, and the rules of their sizes.

moto stores the file systems (so that its backups and tags work); this file adds validation, fields that AWS
sets, and UpdateFileSystem. Other FSx types stay moto's.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends.fsx_associations import forget_associations
from gpufleet.lab.aws.backends.fsx_capacity import check_capacity, check_growth, check_throughput
from gpufleet.lab.aws.backends.fsx_support import backend_of, find
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation

_KEPT = (
    "WeeklyMaintenanceStartTime",
    "DeploymentType",
    "PerUnitStorageThroughput",
    "DailyAutomaticBackupStartTime",
    "AutomaticBackupRetentionDays",
    "CopyTagsToBackups",
    "DriveCacheType",
    "DataCompressionType",
    "LogConfiguration",
    "RootSquashConfiguration",
    "MetadataConfiguration",
    "EfaEnabled",
    "ThroughputCapacity",
    "DataReadCacheConfiguration",
)
_UPDATABLE = (
    "WeeklyMaintenanceStartTime",
    "DailyAutomaticBackupStartTime",
    "AutomaticBackupRetentionDays",
    "DataCompressionType",
    "LogConfiguration",
    "RootSquashConfiguration",
    "PerUnitStorageThroughput",
    "ThroughputCapacity",
    "DataReadCacheConfiguration",
)


@operation("fsx", "CreateFileSystem")
def create_file_system(call: Call) -> Params | Passthrough:
    """Create a Lustre file system; it is AVAILABLE from the next request on."""
    given = call.params
    if given["FileSystemType"] != "LUSTRE":
        return call.original()
    lustre = dict(given.get("LustreConfiguration") or {})
    deployment = lustre.setdefault("DeploymentType", "SCRATCH_1")
    storage = given.get("StorageType") or "SSD"
    check_throughput(deployment, storage, lustre.get("PerUnitStorageThroughput"))
    if lustre.get("EfaEnabled"):
        _check_efa(deployment, lustre, given)
    check_capacity(deployment, storage, given.get("StorageCapacity"), lustre)
    subnet = _check_network(call, given)
    file_system = backend_of(call).create_file_system(
        client_request_token=given.get("ClientRequestToken"),
        file_system_type="LUSTRE",
        storage_capacity=given.get("StorageCapacity"),
        storage_type=storage,
        subnet_ids=given["SubnetIds"],
        security_group_ids=given.get("SecurityGroupIds") or [],
        tags=given.get("Tags"),
        kms_key_id=given.get("KmsKeyId"),
        windows_configuration=None,
        lustre_configuration=_configuration(lustre, storage),
        ontap_configuration=None,
        file_system_type_version=given.get("FileSystemTypeVersion"),
        open_zfs_configuration=None,
    )
    interface = _ec2(call).create_network_interface(
        subnet,
        None,
        group_ids=given.get("SecurityGroupIds") or None,
        description=f"FSx network interface for {file_system.file_system_id}",
    )
    file_system.gpufleet = {
        "OwnerId": call.account,
        "CreationTime": utcnow(),
        "VpcId": subnet.vpc_id,
        "NetworkInterfaceIds": [interface.id],
        "FileSystemTypeVersion": given.get("FileSystemTypeVersion") or _default_version(deployment),
        "NetworkType": given.get("NetworkType") or "IPV4",
        "AdministrativeActions": [],
    }
    return {"FileSystem": {**answer(call, file_system), "Lifecycle": "CREATING"}}


@operation("fsx", "DescribeFileSystems")
def describe_file_systems(call: Call) -> Params:
    """File systems by id, or all of them."""
    ids = call.params.get("FileSystemIds") or []
    chosen = [find(call, one) for one in ids] or list(backend_of(call).file_systems.values())
    start = int(call.params.get("NextToken") or 0)
    end = start + int(call.params.get("MaxResults") or 1000)
    following = str(end) if end < len(chosen) else None
    return {"FileSystems": [answer(call, one) for one in chosen[start:end]], "NextToken": following}


@operation("fsx", "UpdateFileSystem")
def update_file_system(call: Call) -> Params:
    """Change what FSx can change: capacity can only grow, and the deployment type is fixed."""
    given, file_system = call.params, find(call, call.params["FileSystemId"])
    if file_system.file_system_type != "LUSTRE":
        raise AwsError("BadRequest", f"the sandbox updates LUSTRE only, not {file_system.file_system_type}")
    current = file_system.lustre_configuration
    wanted = given.get("LustreConfiguration") or {}
    if "PerUnitStorageThroughput" in wanted:
        if current.get("EfaEnabled"):
            message = "PerUnitStorageThroughput of an EFA-enabled file system cannot be changed."
            raise AwsError("BadRequest", message)
        if file_system.storage_type != "SSD":
            message = f"PerUnitStorageThroughput of {file_system.storage_type} storage cannot be changed."
            raise AwsError("BadRequest", message)
        check_throughput(
            current["DeploymentType"], file_system.storage_type, wanted["PerUnitStorageThroughput"]
        )
    if given.get("StorageCapacity") is not None:
        check_growth(file_system, given["StorageCapacity"])
        file_system.storage_capacity = given["StorageCapacity"]
    current.update({key: wanted[key] for key in _UPDATABLE if key in wanted})
    if "MetadataConfiguration" in wanted:
        current["MetadataConfiguration"] = {
            **(current.get("MetadataConfiguration") or {}),
            **wanted["MetadataConfiguration"],
        }
    if "AutoImportPolicy" in wanted and "DataRepositoryConfiguration" in current:
        current["DataRepositoryConfiguration"]["AutoImportPolicy"] = wanted["AutoImportPolicy"]
    if given.get("FileSystemTypeVersion"):
        file_system.gpufleet["FileSystemTypeVersion"] = given["FileSystemTypeVersion"]
    file_system.gpufleet["AdministrativeActions"] = [
        {
            "AdministrativeActionType": "FILE_SYSTEM_UPDATE",
            "RequestTime": utcnow(),
            "Status": "COMPLETED",
            "ProgressPercent": 100,
            "TargetFileSystemValues": {"LustreConfiguration": wanted},
        }
    ]
    return {"FileSystem": {**answer(call, file_system), "Lifecycle": "UPDATING"}}


@operation("fsx", "DeleteFileSystem")
def delete_file_system(call: Call) -> Params | Passthrough:
    """Delete a file system with its data repository associations."""
    file_system = find(call, call.params["FileSystemId"])
    if file_system.file_system_type != "LUSTRE":
        return call.original()
    backend = backend_of(call)
    for interface in vars(file_system).get("gpufleet", {}).get("NetworkInterfaceIds", []):
        _ec2(call).enis.pop(interface, None)
    forget_associations(call, file_system.file_system_id)
    del backend.file_systems[file_system.file_system_id]
    backend.tagger.delete_all_tags_for_resource(file_system.resource_arn)
    return {"FileSystemId": file_system.file_system_id, "Lifecycle": "DELETING", "LustreResponse": {}}


def answer(call: Call, file_system: Any) -> Params:
    """The file system as FSx describes it."""
    answered: Params = {**file_system.to_dict(), "Lifecycle": "AVAILABLE"}
    answered.pop("SecurityGroupIds", None)  # FSx accepts them and does not return them
    answered.update(vars(file_system).get("gpufleet", {}))
    return answered


def _configuration(lustre: Params, storage: str) -> Params:
    kept = {key: lustre[key] for key in _KEPT if key in lustre}
    kept.setdefault("WeeklyMaintenanceStartTime", "7:03:00")
    kept.setdefault("DataCompressionType", "NONE")
    kept.setdefault("LogConfiguration", {"Level": "DISABLED"})
    kept["MountName"] = secrets.token_hex(4)
    deployment = kept["DeploymentType"]
    if deployment.startswith("PERSISTENT"):
        kept.setdefault("AutomaticBackupRetentionDays", 0)
        kept.setdefault("CopyTagsToBackups", False)
    if deployment == "PERSISTENT_2":
        kept.setdefault("EfaEnabled", False)
    if storage == "HDD":
        kept.setdefault("DriveCacheType", "NONE")
    if lustre.get("ImportPath"):
        kept["DataRepositoryConfiguration"] = {
            "Lifecycle": "AVAILABLE",
            **{key: lustre[key] for key in ("ImportPath", "ExportPath", "AutoImportPolicy") if key in lustre},
            "ImportedFileChunkSize": lustre.get("ImportedFileChunkSize", 1024),
        }
    return kept


def _default_version(deployment: str) -> str:
    return "2.15" if deployment == "PERSISTENT_2" else "2.10"


def _check_efa(deployment: str, lustre: Params, given: Params) -> None:
    if deployment != "PERSISTENT_2":
        raise AwsError("BadRequest", "EfaEnabled needs the deployment type PERSISTENT_2.")
    if not lustre.get("MetadataConfiguration"):
        raise AwsError("BadRequest", "EfaEnabled needs a MetadataConfiguration.")
    if not given.get("SecurityGroupIds"):
        raise AwsError("BadRequest", "EfaEnabled needs an EFA-enabled security group.")


def _ec2(call: Call) -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[call.account][call.region]


def _check_network(call: Call, given: Params) -> Any:
    ec2 = _ec2(call)
    subnets = given["SubnetIds"]
    if len(subnets) != 1:
        raise AwsError("InvalidNetworkSettings", "A Lustre file system takes exactly one subnet.")
    found = {subnet.id: subnet for zone in ec2.subnets.values() for subnet in zone.values()}
    if subnets[0] not in found:
        raise AwsError("InvalidNetworkSettings", f"The subnet ID '{subnets[0]}' does not exist.")
    for group in given.get("SecurityGroupIds") or []:
        if not re.fullmatch(r"sg-[0-9a-f]{8,}", group) or ec2.get_security_group_from_id(group) is None:
            raise AwsError("InvalidNetworkSettings", f"The security group '{group}' does not exist.")
    return found[subnets[0]]
