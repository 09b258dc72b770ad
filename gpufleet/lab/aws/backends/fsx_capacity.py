"""Valid sizes and throughputs of FSx for Lustre: the catalog's for SSD, and the HDD ones it lacks.

Sources: FSx for Lustre guide, "Managing storage capacity" (increments, HDD steps); FSx API reference
(HDD tiers).
"""

from __future__ import annotations

from typing import Any

from gpufleet.catalog import load_catalog
from gpufleet.catalog.lustre import size_steps
from gpufleet.lab.aws.backends.operation import AwsError, Params

HDD_STEP_GIB = {12: 6000, 40: 1800}
"""For PERSISTENT_1, by its throughput in MB/s per TiB."""
SCRATCH_1_STEP_GIB = 3600
SCRATCH_1_SMALLEST_GIB = (1200, 2400)


def check_throughput(deployment: str, storage: str, throughput: int | None) -> None:
    """Reject a per-unit throughput that is missing, superfluous or not a tier."""
    if storage == "INTELLIGENT_TIERING":
        return
    if deployment.startswith("SCRATCH"):
        if throughput is not None:
            raise AwsError("BadRequest", f"PerUnitStorageThroughput is not valid for {deployment}.")
        if storage != "SSD":
            raise AwsError("BadRequest", f"Storage type {storage} is not valid for {deployment}.")
        return
    hdd = storage == "HDD" and deployment == "PERSISTENT_1"
    tiers = tuple(HDD_STEP_GIB) if hdd else ()
    if storage == "SSD":
        tiers = load_catalog().lustre_throughputs(deployment)
    if not tiers:
        raise AwsError("BadRequest", f"Storage type {storage} is not valid for {deployment}.")
    if throughput not in tiers:
        valid = ", ".join(map(str, tiers))
        message = f"PerUnitStorageThroughput {throughput} is not valid for {deployment} {storage}: {valid}."
        raise AwsError("BadRequest", message)


def check_capacity(deployment: str, storage: str, capacity: int | None, lustre: Params) -> None:
    """Reject a size outside the increments of its kind."""
    if storage == "INTELLIGENT_TIERING":
        if capacity is not None:
            raise AwsError("BadRequest", "StorageCapacity is not valid for INTELLIGENT_TIERING.")
        return
    if capacity is None:
        raise AwsError("BadRequest", "StorageCapacity is required.")
    first, step = _steps(deployment, storage, lustre)
    sizes = SCRATCH_1_SMALLEST_GIB if deployment == "SCRATCH_1" else (first,)
    if capacity not in sizes and (capacity <= 0 or capacity % step):
        rule = f"a multiple of {step}" if first == step else f"{first} or a multiple of {step}"
        raise AwsError("BadRequest", f"Invalid storage capacity {capacity} GiB: it must be {rule}.")


def _steps(deployment: str, storage: str, lustre: Params) -> tuple[int, int]:
    """Return the first size and the multiple."""
    throughput = int(lustre.get("PerUnitStorageThroughput") or 0) or None
    if storage == "HDD":
        step = HDD_STEP_GIB[throughput or 0]
        return step, step
    if deployment == "SCRATCH_1":
        return SCRATCH_1_SMALLEST_GIB[0], SCRATCH_1_STEP_GIB
    steps = size_steps(load_catalog(), deployment, throughput, efa=bool(lustre.get("EfaEnabled")))
    if steps is None:
        raise AwsError("BadRequest", f"EfaEnabled is not valid for {deployment} at {throughput} MB/s/TiB.")
    return steps


def check_growth(file_system: Any, capacity: int) -> None:
    """Reject a new size that is smaller, not in increments, or of a kind that cannot grow."""
    lustre = file_system.lustre_configuration
    if lustre["DeploymentType"] == "SCRATCH_1":
        raise AwsError("BadRequest", "The storage capacity of SCRATCH_1 cannot be increased.")
    if capacity <= file_system.storage_capacity:
        raise AwsError("BadRequest", f"StorageCapacity must be above {file_system.storage_capacity} GiB.")
    check_capacity(lustre["DeploymentType"], file_system.storage_type, capacity, lustre)
