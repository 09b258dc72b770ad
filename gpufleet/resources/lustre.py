"""What an FSx for Lustre file system is, by the inputs of its resource."""

from __future__ import annotations

from typing import Any

from gpufleet.resources.resource import Resource

DEFAULT_DEPLOYMENT = "SCRATCH_1"
"""What FSx creates where `deploymentType` is left out (CreateFileSystemLustreConfiguration)."""


def deployment_type(system: Resource) -> Any:
    """The deployment type, FSx's default where none is written; UNKNOWN where it is not known yet."""
    return system.get("deploymentType", DEFAULT_DEPLOYMENT)


def is_scratch(system: Resource) -> bool:
    """Whether the type is known to be a scratch one: no backups, and a key that FSx manages."""
    kind = deployment_type(system)
    return isinstance(kind, str) and kind.startswith("SCRATCH")
