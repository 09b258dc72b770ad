"""Which sizes and throughputs FSx for Lustre takes.

Sources: FSx for Lustre guide, "Managing storage capacity" (increments, HDD steps, EFA steps) and
"SSD storage" (throughput tiers of PERSISTENT_2); FSx API reference (PERSISTENT_1 tiers).
"""

from __future__ import annotations

from typing import Any

from gpufleet.lab.aws.backends.operation import AwsError, Params

FIRST_GIB = 1200
STEP_GIB = 2400
HDD_STEP_GIB = {12: 6000, 40: 1800}
EFA_STEP_GIB = {125: 38400, 250: 19200, 500: 9600, 1000: 4800}
SCRATCH_1_STEP_GIB = 3600

THROUGHPUTS = {
    ("PERSISTENT_1", "SSD"): (50, 100, 200),
    ("PERSISTENT_1", "HDD"): (12, 40),
    ("PERSISTENT_2", "SSD"): (125, 250, 500, 1000),
}
"""MB/s per TiB, by deployment type and storage type; scratch types take none."""


def check_throughput(deployment: str, storage: str, throughput: int | None) -> None:
    """Refuse a per-unit throughput that is missing, superfluous or no tier."""
    if storage == "INTELLIGENT_TIERING":
        return
    if deployment.startswith("SCRATCH"):
        if throughput is not None:
            raise AwsError("BadRequest", f"PerUnitStorageThroughput is not valid for {deployment}.")
        if storage != "SSD":
            raise AwsError("BadRequest", f"Storage type {storage} is not valid for {deployment}.")
        return
    tiers = THROUGHPUTS.get((deployment, storage))
    if tiers is None:
        raise AwsError("BadRequest", f"Storage type {storage} is not valid for {deployment}.")
    if throughput not in tiers:
        valid = ", ".join(map(str, tiers))
        message = f"PerUnitStorageThroughput {throughput} is not valid for {deployment} {storage}: {valid}."
        raise AwsError("BadRequest", message)


def check_capacity(deployment: str, storage: str, capacity: int | None, lustre: Params) -> None:
    """Refuse a size that is not in the increments of its kind."""
    if storage == "INTELLIGENT_TIERING":
        if capacity is not None:
            raise AwsError("BadRequest", "StorageCapacity is not valid for INTELLIGENT_TIERING.")
        return
    if capacity is None:
        raise AwsError("BadRequest", "StorageCapacity is required.")
    throughput = lustre.get("PerUnitStorageThroughput")
    if lustre.get("EfaEnabled"):
        step, first = EFA_STEP_GIB[int(throughput or 0)], None
    elif storage == "HDD":
        step, first = HDD_STEP_GIB[int(throughput or 0)], None
    elif deployment == "SCRATCH_1":
        step, first = SCRATCH_1_STEP_GIB, FIRST_GIB
        if capacity == STEP_GIB:
            return
    else:
        step, first = STEP_GIB, FIRST_GIB
    if capacity != first and (capacity <= 0 or capacity % step):
        sizes = f"{first} or a multiple of {step}" if first else f"a multiple of {step}"
        raise AwsError("BadRequest", f"Invalid storage capacity {capacity} GiB: it must be {sizes}.")


def check_growth(file_system: Any, capacity: int) -> None:
    """Refuse a new size that is smaller, not in increments, or of a kind that cannot grow."""
    lustre = file_system.lustre_configuration
    if lustre["DeploymentType"] == "SCRATCH_1":
        raise AwsError("BadRequest", "The storage capacity of SCRATCH_1 cannot be increased.")
    if capacity <= file_system.storage_capacity:
        raise AwsError("BadRequest", f"StorageCapacity must be above {file_system.storage_capacity} GiB.")
    check_capacity(lustre["DeploymentType"], file_system.storage_type, capacity, lustre)
