"""KMS key rotation with its period, which moto drops."""

from __future__ import annotations

from typing import Any

from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation

DEFAULT_DAYS = 365
SHORTEST_DAYS, LONGEST_DAYS = 90, 2560
"""KMS API reference, EnableKeyRotation."""


@operation("kms", "EnableKeyRotation")
def enable_key_rotation(call: Call) -> Passthrough:
    """Rotate a symmetric key with a period in days."""
    days = int(call.params.get("RotationPeriodInDays") or DEFAULT_DAYS)
    if not SHORTEST_DAYS <= days <= LONGEST_DAYS:
        message = f"RotationPeriodInDays must be between {SHORTEST_DAYS} and {LONGEST_DAYS}."
        raise AwsError("ValidationException", message)
    answer = call.original()
    key = _key(call)
    if key.key_spec != "SYMMETRIC_DEFAULT":
        key.key_rotation_status = False
        raise AwsError("UnsupportedOperationException", "Only symmetric keys can be rotated.")
    key.rotation_period_in_days = days
    return answer


@operation("kms", "GetKeyRotationStatus")
def get_key_rotation_status(call: Call) -> Params:
    """Return whether and how often a key is rotated."""
    call.original()
    key = _key(call)
    status: Params = {"KeyRotationEnabled": key.key_rotation_status, "KeyId": key.arn}
    if key.key_rotation_status:
        status["RotationPeriodInDays"] = getattr(key, "rotation_period_in_days", DEFAULT_DAYS)
    return status


def _key(call: Call) -> Any:
    from moto.kms.models import kms_backends

    backend = kms_backends[call.account][call.region]
    return backend.keys[backend.get_key_id(call.params["KeyId"])]
