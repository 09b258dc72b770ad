"""Variables of the GPU roles: driver, Fabric Manager, NCCL, GPUDirect, containers, DCGM, health."""

from __future__ import annotations

from gpufleet.catalog.nvlinks import active_nvlinks
from gpufleet.racks.variables.variable import Context, Variable

# DGX and HGX B200 and B300: NVIDIA's Fabric Manager user guide, systems using fourth generation NVSwitches.
_FOURTH_GENERATION_NVSWITCH = frozenset({"B200", "B300"})


def _open_modules(context: Context) -> bool:
    """Whether the GPU is in NVIDIA's list of devices that the open kernel modules support."""
    seen = context.lock.gpus_min_driver.get(context.system.gpu)
    return seen is not None and seen <= context.lock.driver_branch


def _traffic_class(context: Context) -> int | None:
    """What NCCL puts into packets on RoCE: the DSCP in the upper six bits of the traffic class."""
    if context.site.fabric.kind != "roce":
        return None
    return context.site.rack.roce_dscp << 2


def _scratch(context: Context) -> str | None:
    return context.site.rack.local_nvme


GPU_VARIABLES = (
    Variable("nvidia_driver", "version", "fleet", lambda c: c.lock.driver),
    Variable("nvidia_driver", "branch", "fleet", lambda c: c.lock.driver_branch),
    Variable("nvidia_driver", "open_modules", "site", _open_modules),
    Variable("nvidia_driver", "gpus", "site", lambda c: c.site.gpus_per_node),
    Variable("nvidia_driver", "reboot_batch", "site", lambda c: c.site.rack.reboot_batch),
    Variable("nvidia_driver", "reboot_timeout_s", "site", lambda c: c.site.rack.reboot_timeout_s),
    Variable("fabric_manager", "version", "fleet", lambda c: c.lock.fabric_manager),
    Variable("fabric_manager", "driver_version", "fleet", lambda c: c.lock.driver),
    Variable("fabric_manager", "nvswitches", "site", lambda c: c.system.nvswitches),
    Variable(
        "fabric_manager",
        "nvlink_subnet_manager",
        "site",
        lambda c: c.system.gpu in _FOURTH_GENERATION_NVSWITCH,
    ),
    Variable("nccl", "version", "fleet", lambda c: c.lock.nccl),
    Variable("nccl", "tests_version", "fleet", lambda c: c.lock.nccl_tests),
    Variable("nccl", "cuda_version", "fleet", lambda c: c.lock.cuda),
    Variable("nccl", "fabric_kind", "site", lambda c: c.site.fabric.kind),
    Variable("nccl", "rail_optimized", "site", lambda c: c.site.fabric.topology == "rail-optimized"),
    Variable("nccl", "devices", "site", lambda c: list(c.site.rack.rails)),
    Variable("nccl", "traffic_class", "site", _traffic_class),
    Variable("gpudirect", "gdrcopy_version", "fleet", lambda c: c.lock.gdrcopy),
    Variable("gpudirect", "open_modules", "site", _open_modules),
    Variable("gpudirect", "gdrcopy", "site", lambda c: bool(c.site.rack.package_mirror)),
    Variable("gpudirect", "cuda_version", "fleet", lambda c: c.lock.cuda),
    Variable("container_toolkit", "version", "fleet", lambda c: c.lock.container_toolkit),
    Variable("dcgm", "version", "fleet", lambda c: c.lock.dcgm),
    Variable("dcgm", "exporter_version", "fleet", lambda c: c.lock.dcgm_exporter),
    Variable("dcgm", "cuda_major", "fleet", lambda c: int(c.lock.cuda.partition(".")[0])),
    Variable("dcgm", "gpus", "site", lambda c: c.site.gpus_per_node),
    Variable("health_check", "gpus", "site", lambda c: c.site.gpus_per_node),
    Variable("health_check", "gpu", "site", lambda c: c.site.gpu),
    Variable("health_check", "nvswitches", "site", lambda c: c.system.nvswitches),
    Variable("health_check", "nvlinks", "site", lambda _: active_nvlinks()),
    Variable("health_check", "adapters", "site", lambda c: c.system.compute_nics),
    Variable("health_check", "devices", "site", lambda c: list(c.site.rack.rails)),
    Variable("health_check", "bridges", "site", lambda c: list(c.system.bridges)),
    Variable("health_check", "fabric_kind", "site", lambda c: c.site.fabric.kind),
    Variable("health_check", "link_gbps", "site", lambda c: c.site.rack.link_gbps),
    Variable("health_check", "kubernetes", "site", lambda c: c.site.rack.kubernetes is not None),
    Variable("health_check", "driver_version", "fleet", lambda c: c.lock.driver),
    Variable(
        "health_check",
        "slurm",
        "site",
        lambda c: c.site.rack.slurm is not None and c.site.rack.slurm.health_check,
    ),
    Variable("pyxis_enroot", "scratch", "site", _scratch),
)
