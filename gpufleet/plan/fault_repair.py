"""What finds faulty GPUs of an EKS site."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from gpufleet.catalog.models import SoftwareLock
from gpufleet.kinds import FaultRepairAction
from gpufleet.spec.models import Kubernetes


class FaultRepairPlan(Struct, frozen=True):
    """NVSentinel of a site, with the versions of its chart and of cert-manager's as they are tagged.

    `keeps_events`: it has a database in the cluster, and cert-manager for the database's certificates.
    """

    version: str
    cert_manager_version: str
    action: FaultRepairAction
    drain_after_min: int

    @property
    def keeps_events(self) -> bool:
        """Whether modules read faults from a database: all but those that only detect."""
        return self.action != "detect"


def plan_fault_repair(settings: Kubernetes, lock: SoftwareLock) -> FaultRepairPlan | None:
    """NVSentinel in the channel's version; None if the fleet file has none."""
    wanted = settings.fault_repair
    if wanted is None or wanted.kind == "none":
        return None
    return FaultRepairPlan(
        version=f"v{lock.nvsentinel}",
        cert_manager_version=f"v{lock.cert_manager}",
        action=wanted.action,
        drain_after_min=wanted.drain_after.delta // timedelta(minutes=1),
    )
