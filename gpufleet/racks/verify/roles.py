"""Role -> function that evaluates the measurements of its hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpufleet.racks.verify import (
    backups,
    fabric,
    gpu,
    hosts,
    kubernetes,
    kubernetes_gpu,
    management,
    mig,
    monitoring,
    slurm,
    storage,
)
from gpufleet.racks.verify.measurements import RoleMeasurements
from gpufleet.racks.verify.result import Result

EVALUATORS: Mapping[str, Callable[[RoleMeasurements], Iterator[Result]]] = {
    "bmc": management.bmc,
    "base": hosts.base,
    "users": hosts.users,
    "firewall": hosts.firewall,
    "nvidia_driver": gpu.nvidia_driver,
    "fabric_manager": gpu.fabric_manager,
    "nccl": gpu.nccl,
    "gpudirect": gpu.gpudirect,
    "container_toolkit": gpu.container_toolkit,
    "mig": mig.mig,
    "dcgm": gpu.dcgm,
    "rdma": fabric.rdma,
    "roce": fabric.roce,
    "subnet_manager": fabric.subnet_manager,
    "munge": slurm.munge,
    "slurm_database": slurm.slurm_database,
    "slurm_cloud": slurm.slurm_cloud,
    "slurm_controller": slurm.slurm_controller,
    "health_check": gpu.health_check,
    "slurm_node": slurm.slurm_node,
    "pyxis_enroot": gpu.pyxis_enroot,
    "slurm_login": slurm.slurm_login,
    "kubernetes_base": kubernetes.kubernetes_base,
    "kubernetes_endpoint": kubernetes.kubernetes_endpoint,
    "kubernetes_control_plane": kubernetes.kubernetes_control_plane,
    "kubernetes_node": kubernetes.kubernetes_node,
    "kubernetes_gpu": kubernetes_gpu.kubernetes_gpu,
    "local_nvme": storage.local_nvme,
    "nfs_client": storage.nfs_client,
    "lustre_client": storage.lustre_client,
    "parallel_fs_client": storage.parallel_fs_client,
    "backup_target": backups.backup_target,
    "node_exporter": monitoring.node_exporter,
    "slurm_exporter": monitoring.slurm_exporter,
    "alertmanager": monitoring.alertmanager,
    "prometheus": monitoring.prometheus,
    "grafana": monitoring.grafana,
}
"""In the order in which the playbooks install them."""
