"""Properties of an FSx for Lustre file system, by the inputs of its resource."""

from __future__ import annotations

from typing import Any

from gpufleet.resources.resource import Resource

DEFAULT_DEPLOYMENT = "SCRATCH_1"
"""FSx's default for `deploymentType` (CreateFileSystemLustreConfiguration)."""


def deployment_type(system: Resource) -> Any:
    """Return the deployment type, or FSx's default; UNKNOWN if it is not known yet."""
    return system.get("deploymentType", DEFAULT_DEPLOYMENT)


def is_scratch(system: Resource) -> bool:
    """Return whether the type is known to be a scratch one: no backups, and a key that FSx manages."""
    kind = deployment_type(system)
    return isinstance(kind, str) and kind.startswith("SCRATCH")
