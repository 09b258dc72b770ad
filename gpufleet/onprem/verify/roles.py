"""Role -> the function that judges what its hosts measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpufleet.onprem.verify import fabric, gpu, hosts, slurm, storage
from gpufleet.onprem.verify.measured import Measured
from gpufleet.onprem.verify.result import Result

JUDGES: Mapping[str, Callable[[Measured], Iterator[Result]]] = {
    "base": hosts.base,
    "users": hosts.users,
    "firewall": hosts.firewall,
    "nvidia_driver": gpu.nvidia_driver,
    "fabric_manager": gpu.fabric_manager,
    "nccl": gpu.nccl,
    "gpudirect": gpu.gpudirect,
    "container_toolkit": gpu.container_toolkit,
    "dcgm": gpu.dcgm,
    "rdma": fabric.rdma,
    "roce": fabric.roce,
    "subnet_manager": fabric.subnet_manager,
    "munge": slurm.munge,
    "slurm_database": slurm.slurm_database,
    "slurm_controller": slurm.slurm_controller,
    "health_check": gpu.health_check,
    "slurm_node": slurm.slurm_node,
    "pyxis_enroot": gpu.pyxis_enroot,
    "slurm_login": slurm.slurm_login,
    "local_nvme": storage.local_nvme,
    "nfs_client": storage.nfs_client,
    "lustre_client": storage.lustre_client,
}
"""In the order in which the playbooks install them."""
