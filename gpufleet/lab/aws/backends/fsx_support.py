"""Access to moto's file systems for all FSx extensions."""

from __future__ import annotations

from typing import Any

from gpufleet.lab.aws.backends.operation import AwsError, Call


def backend_of(call: Call) -> Any:
    """moto's FSx backend of the caller's account and region."""
    from moto.fsx.models import fsx_backends

    return fsx_backends[call.account][call.region]


def find(call: Call, file_system_id: str) -> Any:
    """Return moto's file system of that id; FSx's own error if there is none."""
    found = backend_of(call).file_systems.get(file_system_id)
    if found is None:
        raise AwsError("FileSystemNotFound", f"File system '{file_system_id}' does not exist.")
    return found
