"""All variables together, and their values for a fleet, a site and a host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpufleet.catalog import Catalog, SoftwareLock
from gpufleet.plan.models import HostPlan, OnPremSitePlan
from gpufleet.racks.variables.backups import BACKUP_VARIABLES
from gpufleet.racks.variables.fabric import FABRIC_VARIABLES
from gpufleet.racks.variables.gpu import GPU_VARIABLES
from gpufleet.racks.variables.hosts import HOST_VARIABLES
from gpufleet.racks.variables.kubernetes import KUBERNETES_VARIABLES
from gpufleet.racks.variables.kubernetes_gpu import KUBERNETES_GPU_VARIABLES
from gpufleet.racks.variables.management import MANAGEMENT_VARIABLES
from gpufleet.racks.variables.monitoring import MONITORING_VARIABLES
from gpufleet.racks.variables.slurm import SLURM_VARIABLES
from gpufleet.racks.variables.slurm_cloud import SLURM_CLOUD_VARIABLES
from gpufleet.racks.variables.variable import Context, LaunchedSite, Scope, Variable

VARIABLES: tuple[Variable, ...] = (
    *HOST_VARIABLES,
    *GPU_VARIABLES,
    *FABRIC_VARIABLES,
    *SLURM_VARIABLES,
    *SLURM_CLOUD_VARIABLES,
    *KUBERNETES_VARIABLES,
    *KUBERNETES_GPU_VARIABLES,
    *BACKUP_VARIABLES,
    *MONITORING_VARIABLES,
    *MANAGEMENT_VARIABLES,
)
"""Every variable that the inventory gives to a role."""


def fleet_values(lock: SoftwareLock) -> dict[str, Any]:
    """What all hosts get: the versions of the software channel."""
    return _values("fleet", Context(lock))


def site_values(
    site: OnPremSitePlan, catalog: Catalog, lock: SoftwareLock, launched: Sequence[LaunchedSite] = ()
) -> dict[str, Any]:
    """What every host of a rack site gets. `launched` are the cloud sites whose nodes its Slurm launches."""
    return _values("site", Context(lock, site, catalog, launched=launched))


def host_values(host: HostPlan, site: OnPremSitePlan, catalog: Catalog, lock: SoftwareLock) -> dict[str, Any]:
    """What one host gets, and others not or otherwise."""
    return _values("host", Context(lock, site, catalog, host))


def _values(scope: Scope, context: Context) -> dict[str, Any]:
    found = {item.full_name: item.value(context) for item in VARIABLES if item.scope == scope}
    return {name: value for name, value in found.items() if value is not None}
