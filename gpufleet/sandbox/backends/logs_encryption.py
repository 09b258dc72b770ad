"""Changing the KMS key of a log group, which moto lacks."""

from __future__ import annotations

from typing import Any

from gpufleet.sandbox.backends.operation import AwsError, Call, Params, operation


@operation("logs", "AssociateKmsKey")
def associate_kms_key(call: Call) -> Params:
    """Encrypt what is logged from now on."""
    _group(call).kms_key_id = call.params["kmsKeyId"]
    return {}


@operation("logs", "DisassociateKmsKey")
def disassociate_kms_key(call: Call) -> Params:
    """Stop encrypting with a key of the account."""
    _group(call).kms_key_id = None
    return {}


def _group(call: Call) -> Any:
    from moto.logs.models import logs_backends

    name = call.params.get("logGroupName") or call.params.get("resourceIdentifier", "").rpartition(":")[2]
    group = logs_backends[call.account][call.region].groups.get(name)
    if group is None:
        raise AwsError("ResourceNotFoundException", "The specified log group does not exist.")
    return group
