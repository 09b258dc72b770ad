"""Log groups: changing the KMS key and protection from deletion, which moto lacks."""

from __future__ import annotations

import json
from typing import Any

from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation


@operation("logs", "AssociateKmsKey")
def associate_kms_key(call: Call) -> Params:
    """Encrypt log events from now on."""
    _group(call).kms_key_id = call.params["kmsKeyId"]
    return {}


@operation("logs", "DisassociateKmsKey")
def disassociate_kms_key(call: Call) -> Params:
    """Stop encrypting with a customer-managed key."""
    _group(call).kms_key_id = None
    return {}


@operation("logs", "PutLogGroupDeletionProtection")
def put_log_group_deletion_protection(call: Call) -> Params:
    """Enable or disable protection of a log group from deletion."""
    _group(call).gpufleet_protected = bool(call.params["deletionProtectionEnabled"])
    return {}


@operation("logs", "DescribeLogGroups")
def describe_log_groups(call: Call) -> Params:
    """moto's answer, with the protection of each group."""
    answer: Params = json.loads(call.original().answer)
    groups = _groups(call)
    for one in answer["logGroups"]:
        one["deletionProtectionEnabled"] = _protected(groups[one["logGroupName"]])
    return answer


@operation("logs", "DeleteLogGroup")
def delete_log_group(call: Call) -> Passthrough:
    """Delete a log group; rejected under protection."""
    group = _groups(call).get(call.params["logGroupName"])
    if group is not None and _protected(group):
        message = f"Log group {call.params['logGroupName']} is protected from deletion."
        raise AwsError("ValidationException", message)
    return call.original()


def _protected(group: Any) -> bool:
    return bool(getattr(group, "gpufleet_protected", False))


def _groups(call: Call) -> dict[str, Any]:
    from moto.logs.models import logs_backends

    found: dict[str, Any] = logs_backends[call.account][call.region].groups
    return found


def _group(call: Call) -> Any:
    named = call.params.get("resourceIdentifier") or call.params.get("logGroupIdentifier") or ""
    name = call.params.get("logGroupName") or named.removesuffix(":*").rpartition(":")[2]
    group = _groups(call).get(name)
    if group is None:
        raise AwsError("ResourceNotFoundException", "The specified log group does not exist.")
    return group
