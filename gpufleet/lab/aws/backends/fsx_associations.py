"""FSx data repository associations between S3 prefixes and paths of a file system."""

from __future__ import annotations

import re
import secrets
from typing import Any

from moto.core.base_backend import BackendDict, BaseBackend
from moto.core.utils import utcnow

from gpufleet.lab.aws.backends.fsx_support import backend_of, find
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

MAX_PER_FILE_SYSTEM = 8
"""Maximum associations of one file system (FSx for Lustre guide, data repositories)."""

_S3_PATH = re.compile(r"^s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/.*)?$")


class AssociationBackend(BaseBackend):  # type: ignore[misc]
    """The associations of one account and region, by id."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.associations: dict[str, Params] = {}


association_backends = BackendDict(AssociationBackend, "fsx")


def _associations(call: Call) -> dict[str, Params]:
    backend: AssociationBackend = association_backends[call.account][call.region]
    return backend.associations


@operation("fsx", "CreateDataRepositoryAssociation")
def create_data_repository_association(call: Call) -> Params:
    """Associate an S3 prefix; without its bucket the association is MISCONFIGURED, as in FSx."""
    given, file_system = call.params, find(call, call.params["FileSystemId"])
    deployment = (file_system.lustre_configuration or {}).get("DeploymentType")
    if deployment in (None, "SCRATCH_1"):
        raise AwsError("BadRequest", f"Data repository associations are not supported on {deployment}.")
    if file_system.lustre_configuration.get("AutomaticBackupRetentionDays"):
        message = "Automatic backups are not supported on file systems linked to a data repository."
        raise AwsError("BadRequest", message)
    path = given.get("FileSystemPath") or "/"
    siblings = [a for a in _associations(call).values() if a["FileSystemId"] == given["FileSystemId"]]
    if len(siblings) >= MAX_PER_FILE_SYSTEM:
        message = f"A file system takes at most {MAX_PER_FILE_SYSTEM} data repository associations."
        raise AwsError("ServiceLimitExceeded", message)
    if not path.startswith("/"):
        raise AwsError("BadRequest", f"FileSystemPath must begin with a slash: {path}")
    for one in siblings:
        if _overlap(path, one["FileSystemPath"]):
            message = (
                f"FileSystemPath {path} overlaps with {one['FileSystemPath']} of {one['AssociationId']}."
            )
            raise AwsError("BadRequest", message)
    match = _S3_PATH.match(given["DataRepositoryPath"])
    if match is None:
        raise AwsError("BadRequest", f"Invalid DataRepositoryPath: {given['DataRepositoryPath']}")
    association_id = f"dra-{secrets.token_hex(9)[:17]}"
    owner = f"arn:{call.partition}:fsx:{call.region}:{call.account}"
    arn = f"{owner}:association/{file_system.file_system_id}/{association_id}"
    association: Params = {
        "AssociationId": association_id,
        "ResourceARN": arn,
        "FileSystemId": given["FileSystemId"],
        "Lifecycle": "AVAILABLE",
        "FileSystemPath": path,
        "DataRepositoryPath": given["DataRepositoryPath"],
        "BatchImportMetaDataOnCreate": bool(given.get("BatchImportMetaDataOnCreate")),
        "ImportedFileChunkSize": given.get("ImportedFileChunkSize") or 1024,
        "S3": given.get("S3") or {},
        "CreationTime": utcnow(),
    }
    if not _bucket_exists(call, match.group(1)):
        association["Lifecycle"] = "MISCONFIGURED"
        association["FailureDetails"] = {"Message": f"The bucket {match.group(1)} does not exist."}
    _associations(call)[association_id] = association
    if given.get("Tags"):
        backend_of(call).tagger.tag_resource(arn, given["Tags"])
    return {"Association": {**_answer(call, association), "Lifecycle": "CREATING"}}


@operation("fsx", "DescribeDataRepositoryAssociations")
def describe_data_repository_associations(call: Call) -> Params:
    """Associations by id or by file system."""
    ids = call.params.get("AssociationIds") or []
    chosen = [_find(call, one) for one in ids] or list(_associations(call).values())
    for one in call.params.get("Filters") or []:
        if one["Name"] == "file-system-id":
            chosen = [a for a in chosen if a["FileSystemId"] in one["Values"]]
        elif one["Name"] == "data-repository-type":
            chosen = chosen if "S3" in one["Values"] else []
        else:
            raise AwsError("BadRequest", f"The sandbox has no filter {one['Name']}.")
    start = int(call.params.get("NextToken") or 0)
    end = start + int(call.params.get("MaxResults") or 100)
    following = str(end) if end < len(chosen) else None
    return {"Associations": [_answer(call, a) for a in chosen[start:end]], "NextToken": following}


@operation("fsx", "UpdateDataRepositoryAssociation")
def update_data_repository_association(call: Call) -> Params:
    """Change the chunk size or the import and export policies."""
    association = _find(call, call.params["AssociationId"])
    for key in ("ImportedFileChunkSize", "S3"):
        if call.params.get(key) is not None:
            association[key] = call.params[key]
    return {"Association": {**_answer(call, association), "Lifecycle": "UPDATING"}}


@operation("fsx", "DeleteDataRepositoryAssociation")
def delete_data_repository_association(call: Call) -> Params:
    """Remove an association; the S3 objects stay."""
    association = _find(call, call.params["AssociationId"])
    _forget(call, association)
    return {
        "AssociationId": association["AssociationId"],
        "Lifecycle": "DELETING",
        "DeleteDataInFileSystem": bool(call.params.get("DeleteDataInFileSystem")),
    }


def associations_of(call: Call) -> list[Params]:
    """Every association of the account and region, with its tags."""
    return [_answer(call, association) for association in _associations(call).values()]


def forget_associations(call: Call, file_system_id: str) -> None:
    """Delete the associations of a deleted file system."""
    for association in [a for a in _associations(call).values() if a["FileSystemId"] == file_system_id]:
        _forget(call, association)


def _forget(call: Call, association: Params) -> None:
    del _associations(call)[association["AssociationId"]]
    backend_of(call).tagger.delete_all_tags_for_resource(association["ResourceARN"])


def _find(call: Call, association_id: str) -> Params:
    association = _associations(call).get(association_id)
    if association is None:
        message = f"Data repository association '{association_id}' does not exist."
        raise AwsError("DataRepositoryAssociationNotFound", message)
    return association


def _answer(call: Call, association: Params) -> Params:
    return {**association, "Tags": backend_of(call).list_tags_for_resource(association["ResourceARN"])}


def _overlap(one: str, other: str) -> bool:
    first, second = one.rstrip("/") + "/", other.rstrip("/") + "/"
    return first.startswith(second) or second.startswith(first)


def _bucket_exists(call: Call, name: str) -> bool:
    from moto.s3.models import s3_backends

    buckets: Any = s3_backends[call.account][call.partition].buckets
    return name in buckets
