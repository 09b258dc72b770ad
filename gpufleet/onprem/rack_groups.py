"""The groups that the playbooks of the racks name as their hosts. All exist, also where nobody is in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpufleet.catalog import System
from gpufleet.plan.models import HostPlan, OnPremSitePlan

RACK_GROUPS: Mapping[str, str] = {
    "rack_gpu_nodes": "GPU nodes",
    "rack_controllers": "hosts of the scheduler's controllers",
    "rack_login": "login hosts",
    "rack_nvswitch": "GPU nodes of systems with NVSwitches, or of which nobody published that they have none",
    "rack_rdma": "GPU nodes, and hosts that manage an InfiniBand subnet",
    "rack_infiniband": "GPU nodes on InfiniBand",
    "rack_roce": "GPU nodes on RoCE",
    "rack_subnet_managers": "hosts that run opensm",
    "rack_slurm": "all hosts of Slurm sites",
    "rack_slurm_database": "hosts of slurmdbd and MariaDB: the first controller of each Slurm site",
    "rack_slurm_controllers": "controllers of Slurm sites",
    "rack_slurm_nodes": "GPU nodes of Slurm sites",
    "rack_slurm_login": "login hosts of Slurm sites",
    "rack_local_nvme": "GPU nodes whose own drives are scratch",
    "rack_nfs_clients": "GPU nodes and login hosts of sites with NFS file systems",
    "rack_lustre_clients": "GPU nodes and login hosts of sites with Lustre file systems",
}
"""Group name -> who is in it."""


def rack_groups_of(host: HostPlan, site: OnPremSitePlan, system: System) -> Iterator[str]:
    """The groups that `host` is in."""
    gpu = host.role == "gpu"
    slurm = site.rack.slurm is not None
    yield {"gpu": "rack_gpu_nodes", "controller": "rack_controllers", "login": "rack_login"}[host.role]
    if gpu and system.nvswitches != 0:
        yield "rack_nvswitch"
    manages = any(item.host == host.name for item in site.rack.fabric.subnet_managers)
    if gpu or manages:
        yield "rack_rdma"
    if gpu:
        yield f"rack_{site.fabric_kind}"
    if manages:
        yield "rack_subnet_managers"
    if slurm:
        yield "rack_slurm"
        first = next((item.name for item in site.hosts if item.role == "controller"), None)
        if host.name == first:
            yield "rack_slurm_database"
        yield {
            "gpu": "rack_slurm_nodes",
            "controller": "rack_slurm_controllers",
            "login": "rack_slurm_login",
        }[host.role]
    if gpu and site.rack.nvme_mount is not None:
        yield "rack_local_nvme"
    if host.role != "controller":
        for kind in sorted({kind for kind, _, _ in site.mounts}):
            yield f"rack_{kind}_clients"
