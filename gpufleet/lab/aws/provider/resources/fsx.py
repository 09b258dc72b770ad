"""FSx for Lustre file systems and their links to S3."""

from __future__ import annotations

from typing import Any, ClassVar

from gpufleet.errors import CloudError
from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names, tag_list, tags_to_map, to_request
from gpufleet.lab.aws.provider.resources.ec2 import find
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.waiting import until, until_gone
from gpufleet.lab.aws.provider.wire import Props

_TIMEOUT_S = 1800.0
_TOP = (
    "backupId",
    "fileSystemTypeVersion",
    "kmsKeyId",
    "securityGroupIds",
    "storageCapacity",
    "storageType",
    "subnetIds",
)
_LUSTRE = (
    "autoImportPolicy", "automaticBackupRetentionDays", "copyTagsToBackups", "dailyAutomaticBackupStartTime",
    "dataCompressionType", "dataReadCacheConfiguration", "deploymentType", "driveCacheType", "efaEnabled",
    "exportPath", "importPath", "importedFileChunkSize", "logConfiguration", "metadataConfiguration",
    "perUnitStorageThroughput", "rootSquashConfiguration", "throughputCapacity", "weeklyMaintenanceStartTime",
)  # fmt: skip
_CHANGEABLE = (
    "autoImportPolicy", "automaticBackupRetentionDays", "dailyAutomaticBackupStartTime",
    "dataCompressionType",
    "dataReadCacheConfiguration", "logConfiguration", "metadataConfiguration", "perUnitStorageThroughput",
    "rootSquashConfiguration", "throughputCapacity", "weeklyMaintenanceStartTime",
)  # fmt: skip
_NAMES = Names(rename={"dataReadCacheConfiguration.size": "SizeGiB"})


def _number(value: object) -> float:
    return float(str(value or 0))


class LustreFileSystem(Handler):
    """aws.fsx.LustreFileSystem."""

    pulumi_type = "aws:fsx/lustreFileSystem:LustreFileSystem"
    force_new = frozenset({
        "backupId", "copyTagsToBackups", "deploymentType", "driveCacheType", "efaEnabled", "exportPath",
        "importPath",
        "importedFileChunkSize", "kmsKeyId", "securityGroupIds", "storageType", "subnetIds",
    })  # fmt: skip
    computed = frozenset({
        "autoImportPolicy", "automaticBackupRetentionDays", "dailyAutomaticBackupStartTime", "efaEnabled",
        "exportPath", "fileSystemTypeVersion", "importedFileChunkSize", "kmsKeyId", "logConfiguration",
        "metadataConfiguration", "weeklyMaintenanceStartTime", "dataReadCacheConfiguration",
        "storageCapacity",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {
        "copyTagsToBackups": False, "dataCompressionType": "NONE", "deploymentType": "SCRATCH_1",
        "skipFinalBackup": True, "storageType": "SSD",
    }  # fmt: skip

    def replaces(self, old: Props, new: Props, changed: frozenset[str]) -> frozenset[str]:
        """Return what can grow in place but not shrink, and what only some file systems can change."""
        hard = set()
        shrinks = _number(new.get("storageCapacity")) < _number(old.get("storageCapacity"))
        if "storageCapacity" in changed and (shrinks or new.get("deploymentType") == "SCRATCH_1"):
            hard.add("storageCapacity")
        version = new.get("fileSystemTypeVersion")
        if "fileSystemTypeVersion" in changed and version:
            older = _number(version) < _number(old.get("fileSystemTypeVersion"))
            hard |= {"fileSystemTypeVersion"} if older else set()
        # Both persistent types support it since November 2023 (hashicorp/terraform-provider-aws#34932).
        if "perUnitStorageThroughput" in changed and new.get("efaEnabled"):
            hard.add("perUnitStorageThroughput")
        before, after = old.get("metadataConfiguration") or {}, new.get("metadataConfiguration") or {}
        if "metadataConfiguration" in changed and before:
            to_automatic = before.get("mode") == "USER_PROVISIONED" and after.get("mode") == "AUTOMATIC"
            if to_automatic or _number(after.get("iops")) < _number(before.get("iops")):
                hard.add("metadataConfiguration")
        return frozenset(hard)

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the file system and wait until it can be mounted."""
        fsx = aws.client("fsx")
        top = only(inputs, *_TOP) | {"subnetIds": [inputs["subnetIds"]]}
        backup = top.pop("backupId", None)
        operation = "CreateFileSystemFromBackup" if backup else "CreateFileSystem"
        shape = fsx.meta.service_model.shape_for("CreateFileSystemLustreConfiguration")
        lustre = to_request(shape, only(inputs, *_LUSTRE), _NAMES)
        fixed: dict[str, Any] = {"LustreConfiguration": lustre} | (
            {"BackupId": backup} if backup else {"FileSystemType": "LUSTRE"}
        )
        if inputs.get("tags"):
            fixed["Tags"] = tag_list(inputs["tags"])
        rid = str(aws.send("fsx", operation, top, None, **fixed)["FileSystem"]["FileSystemId"])
        with keep_on_failure(rid):
            self._await(aws, rid)
        return rid

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return find(aws.client("fsx").describe_file_systems, "FileSystems", FileSystemIds=[rid])

    def _await(self, aws: Aws, rid: str) -> None:
        def probe() -> bool | None:
            found = self._find(aws, rid)
            status = (found or {}).get("Lifecycle")
            if status in {"FAILED", "MISCONFIGURED"}:
                reason = ((found or {}).get("FailureDetails") or {}).get("Message", "no reason given")
                raise CloudError(
                    f"file system {rid} is {status}: {reason}", remedy="correct the inputs and run up again"
                )
            pending = [
                action for action in (found or {}).get("AdministrativeActions") or ()
                if action.get("Status") in {"PENDING", "IN_PROGRESS"}
                and action.get("AdministrativeActionType") == "FILE_SYSTEM_UPDATE"
            ]  # fmt: skip
            return True if status == "AVAILABLE" and not pending else None

        until(probe, timeout_s=_TIMEOUT_S, what=f"file system {rid} becoming available")

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The file system."""
        found = self._find(aws, rid)
        if found is None or found.get("Lifecycle") == "DELETING":
            return None
        lustre = found.get("LustreConfiguration") or {}
        repository = lustre.get("DataRepositoryConfiguration") or {}
        flat = {**repository, **lustre, **found}
        out = self.decode(flat, Names(rename={"arn": "ResourceARN", **_NAMES.rename}))
        subnets = found.get("SubnetIds") or []
        out["subnetIds"] = subnets[0] if subnets else None
        out["tags"] = tags_to_map(found.get("Tags"))
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change capacity, throughput, compression, maintenance and tags in place."""
        fsx = aws.client("fsx")
        keys = [key for key in _CHANGEABLE if key in changed and new.get(key) is not None]
        shape = fsx.meta.service_model.shape_for("UpdateFileSystemLustreConfiguration")
        lustre = to_request(shape, only(new, *keys), _NAMES)
        top = only({key: new.get(key) for key in changed}, "storageCapacity", "fileSystemTypeVersion")
        if lustre or top:
            extra = {"LustreConfiguration": lustre} if lustre else {}
            aws.send("fsx", "UpdateFileSystem", top, None, FileSystemId=rid, **extra)
            self._await(aws, rid)
        retag(fsx, {"ResourceARN": str(old["arn"])}, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the file system and wait; create a final backup only if the program requests one."""
        options: Props = {"SkipFinalBackup": bool(state.get("skipFinalBackup", True))}
        if state.get("finalBackupTags"):
            options["FinalBackupTags"] = tag_list(state["finalBackupTags"])
        persistent = str(state.get("deploymentType", "")).startswith("PERSISTENT")
        extra = {"LustreConfiguration": options} if persistent else {}
        aws.client("fsx").delete_file_system(FileSystemId=rid, **extra)
        until_gone(
            lambda: self._find(aws, rid), timeout_s=_TIMEOUT_S, what=f"the deletion of file system {rid}"
        )


class DataRepositoryAssociation(Handler):
    """aws.fsx.DataRepositoryAssociation: a folder of a file system with a prefix of a bucket."""

    pulumi_type = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
    force_new = frozenset(
        {"batchImportMetaDataOnCreate", "dataRepositoryPath", "fileSystemId", "fileSystemPath"}
    )
    computed = frozenset({"importedFileChunkSize", "s3"})
    defaults: ClassVar[Defaults] = {"batchImportMetaDataOnCreate": False, "deleteDataInFilesystem": False}
    delete_before_replace = True
    _names = Names(rename={"arn": "ResourceARN"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the association and wait until it is available."""
        keys = (
            "fileSystemId", "fileSystemPath", "dataRepositoryPath", "batchImportMetaDataOnCreate",
            "importedFileChunkSize", "s3",
        )  # fmt: skip
        tags = {"Tags": tag_list(inputs["tags"])} if inputs.get("tags") else {}
        made = aws.send("fsx", "CreateDataRepositoryAssociation", only(inputs, *keys), None, **tags)
        rid = str(made["Association"]["AssociationId"])
        with keep_on_failure(rid):
            self._await(aws, rid)
        return rid

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return find(
            aws.client("fsx").describe_data_repository_associations, "Associations", AssociationIds=[rid]
        )

    def _await(self, aws: Aws, rid: str) -> None:
        def probe() -> bool | None:
            found = self._find(aws, rid) or {}
            if found.get("Lifecycle") in {"FAILED", "MISCONFIGURED"}:
                reason = (found.get("FailureDetails") or {}).get("Message", "no reason given")
                raise CloudError(
                    f"association {rid} is {found['Lifecycle']}: {reason}", remedy="check path and bucket"
                )
            return True if found.get("Lifecycle") == "AVAILABLE" else None

        until(probe, timeout_s=_TIMEOUT_S, what=f"association {rid} becoming available")

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The association."""
        found = self._find(aws, rid)
        if found is None or found.get("Lifecycle") == "DELETING":
            return None
        out = self.decode(found, self._names)
        out["tags"] = tags_to_map(found.get("Tags"))
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change import and export policies in place."""
        if changed & {"importedFileChunkSize", "s3"}:
            keys = ("importedFileChunkSize", "s3")
            aws.send("fsx", "UpdateDataRepositoryAssociation", only(new, *keys), None, AssociationId=rid)
            self._await(aws, rid)
        retag(aws.client("fsx"), {"ResourceARN": str(old["arn"])}, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the association; delete its data only if the program requests it."""
        aws.client("fsx").delete_data_repository_association(
            AssociationId=rid, DeleteDataInFileSystem=bool(state.get("deleteDataInFilesystem"))
        )
        until_gone(
            lambda: self._find(aws, rid), timeout_s=_TIMEOUT_S, what=f"the deletion of association {rid}"
        )


HANDLERS = (LustreFileSystem(), DataRepositoryAssociation())
