"""NVSentinel of a site."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from gpufleet.components.nvsentinel import Nvsentinel, NvsentinelArgs
from gpufleet.plan.fault_repair import FaultRepairPlan
from gpufleet.plan.models import CloudSitePlan
from gpufleet.plan.names import REPAIR_SUFFIX


def build_fault_repair(
    name: str,
    site: CloudSitePlan,
    plan: FaultRepairPlan,
    taint_keys: Sequence[str],
    opts: pulumi.ResourceOptions,
) -> Nvsentinel:
    """Deploy NVSentinel; the GPU Operator, whose DCGM it reads, may come later."""
    return Nvsentinel(
        f"{name}{REPAIR_SUFFIX}",
        NvsentinelArgs(
            version=plan.version,
            cert_manager_version=plan.cert_manager_version,
            action=plan.action,
            drain_after_min=plan.drain_after_min,
            taint_keys=taint_keys,
            labels={"gpufleet.io/site": site.site},
        ),
        opts,
    )
