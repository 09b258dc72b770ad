"""The host groups of the rack playbooks. All groups exist, also without hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpufleet.catalog import System
from gpufleet.plan.models import HostPlan, OnPremSitePlan

RACK_GROUPS: Mapping[str, str] = {
    "rack_hosts": "all hosts: those of racks, and servers of Slurm in the cloud",
    "rack_gpu_nodes": "GPU nodes",
    "rack_controllers": "hosts of the scheduler's controllers",
    "rack_login": "login hosts",
    "rack_nvswitch": "GPU nodes of systems with NVSwitches, or for which this is not published",
    "rack_rdma": "GPU nodes, and hosts that manage an InfiniBand subnet",
    "rack_infiniband": "GPU nodes on InfiniBand",
    "rack_roce": "GPU nodes on RoCE",
    "rack_subnet_managers": "hosts that run opensm",
    "rack_backup_target": "controllers with backups that are copied to a remote target",
    "rack_slurm": "all hosts of Slurm sites",
    "rack_slurm_database": "hosts of slurmdbd and MariaDB: the first controller of each Slurm site",
    "rack_slurm_controllers": "controllers of Slurm sites",
    "rack_slurm_nodes": "GPU nodes of Slurm sites",
    "rack_slurm_login": "login hosts of Slurm sites",
    "rack_container_login": "the same of racks, whose jobs may run in containers",
    "rack_kubernetes": "controllers and GPU nodes of Kubernetes sites",
    "rack_kubernetes_first": "the first controller of each Kubernetes site, which begins its cluster",
    "rack_kubernetes_control_plane": "controllers of Kubernetes sites",
    "rack_kubernetes_nodes": "GPU nodes of Kubernetes sites",
    "rack_kubernetes_endpoint": "controllers of Kubernetes sites whose API has a virtual address",
    "rack_local_nvme": "GPU nodes whose own drives are scratch",
    "rack_bmc": "GPU nodes whose management controllers are managed",
    "rack_mig": "GPU nodes of sites that say how GPUs are divided, if only that none is",
    "rack_nfs_clients": "GPU nodes and login hosts of sites with NFS file systems",
    "rack_lustre_clients": "GPU nodes and login hosts of sites with Lustre file systems",
    "rack_parallel_fs_clients": "GPU nodes and login hosts of sites with BeeGFS, WEKA or IBM Storage Scale",
    "rack_exporters": "all hosts of sites with monitoring",
    "rack_monitoring": "the host of each site that runs Prometheus and Alertmanager",
    "rack_slurm_exporter": "the same on Slurm sites: it measures Slurm",
    "rack_grafana": "the same where Grafana is not switched off",
}
"""Group name -> its hosts."""

_CLIENTS = {"nfs": "rack_nfs_clients", "lustre": "rack_lustre_clients"}


def rack_groups_of(host: HostPlan, site: OnPremSitePlan, system: System) -> Iterator[str]:
    """The groups that `host` is in."""
    gpu = host.role == "gpu"
    slurm = site.rack.slurm is not None
    yield "rack_hosts"
    yield {"gpu": "rack_gpu_nodes", "controller": "rack_controllers", "login": "rack_login"}[host.role]
    if gpu and system.nvswitches != 0:
        yield "rack_nvswitch"
    manages = any(item.host == host.name for item in site.rack.subnet_managers)
    if gpu or manages:
        yield "rack_rdma"
    if gpu:
        yield f"rack_{site.fabric.kind}"
    if manages:
        yield "rack_subnet_managers"
    if slurm:
        yield "rack_slurm"
        # Asked of controllers only: looking for the first one among all hosts for each host is quadratic.
        if host.role == "controller" and host is next(
            item for item in site.hosts if item.role == "controller"
        ):
            yield "rack_slurm_database"
            if site.rack.backups is not None:
                yield "rack_backup_target"
        yield {
            "gpu": "rack_slurm_nodes",
            "controller": "rack_slurm_controllers",
            "login": "rack_slurm_login",
        }[host.role]
        if host.role == "login" and site.system:
            yield "rack_container_login"
    if site.rack.kubernetes is not None and host.role != "login":
        yield "rack_kubernetes"
        yield "rack_kubernetes_nodes" if gpu else "rack_kubernetes_control_plane"
        if not gpu and site.rack.backups is not None:
            yield "rack_backup_target"
        if host.name == next(iter(site.rack.kubernetes.members), None):
            yield "rack_kubernetes_first"
        if not gpu and site.rack.kubernetes.endpoint is not None:
            yield "rack_kubernetes_endpoint"
    if gpu and site.rack.local_nvme is not None:
        yield "rack_local_nvme"
    if host.bmc is not None and site.rack.management_settings is not None:
        yield "rack_bmc"
    if gpu and site.rack.mig is not None:
        yield "rack_mig"
    if host.role != "controller":
        yield from sorted({_CLIENTS.get(item.kind, "rack_parallel_fs_clients") for item in site.mounts})
    monitoring = site.rack.monitoring_settings
    if monitoring is not None:
        yield "rack_exporters"
        if host.name == monitoring.host:
            yield "rack_monitoring"
            if slurm:
                yield "rack_slurm_exporter"
            if monitoring.grafana:
                yield "rack_grafana"
