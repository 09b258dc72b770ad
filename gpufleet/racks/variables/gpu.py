"""Variables of the GPU roles: driver, Fabric Manager, NCCL, GPUDirect, containers, DCGM, health."""

from __future__ import annotations

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
    Variable(
        "nvidia_driver",
        "version",
        "str",
        "fleet",
        "The driver's full version, from the software channel.",
        lambda c: c.lock.driver,
    ),
    Variable("nvidia_driver", "branch", "int", "fleet", "Its branch.", lambda c: c.lock.driver_branch),
    Variable(
        "nvidia_driver",
        "open_modules",
        "bool",
        "site",
        "Whether the open kernel modules are installed: all GPUs that NVIDIA's list names.",
        _open_modules,
    ),
    Variable(
        "nvidia_driver", "gpus", "int", "site", "How many GPUs a node has.", lambda c: c.site.gpus_per_node
    ),
    Variable(
        "nvidia_driver",
        "reboot_batch",
        "int",
        "site",
        "How many nodes may reboot at once.",
        lambda c: c.site.rack.reboot_batch,
    ),
    Variable(
        "nvidia_driver",
        "reboot_timeout_s",
        "int",
        "site",
        "Seconds that a node may take to come back.",
        lambda c: c.site.rack.reboot_timeout_s,
    ),
    Variable(
        "fabric_manager",
        "version",
        "str",
        "fleet",
        "Its full version; the driver's, exactly.",
        lambda c: c.lock.fabric_manager,
    ),
    Variable(
        "fabric_manager",
        "driver_version",
        "str",
        "fleet",
        "The driver that it has to equal.",
        lambda c: c.lock.driver,
    ),
    Variable(
        "fabric_manager",
        "nvswitches",
        "int",
        "site",
        "NVSwitches of a node; left out where nobody published it.",
        lambda c: c.system.nvswitches,
    ),
    Variable(
        "fabric_manager",
        "nvlink_subnet_manager",
        "bool",
        "site",
        "Whether NVLink needs NVLSM beside it: NVSwitches of the fourth generation.",
        lambda c: c.system.gpu in _FOURTH_GENERATION_NVSWITCH,
    ),
    Variable("nccl", "version", "str", "fleet", "The library's version.", lambda c: c.lock.nccl),
    Variable("nccl", "tests_version", "str", "fleet", "Version of nccl-tests.", lambda c: c.lock.nccl_tests),
    Variable("nccl", "cuda_version", "str", "fleet", "The CUDA that it is built for.", lambda c: c.lock.cuda),
    Variable("nccl", "fabric_kind", "str", "site", "`infiniband` or `roce`.", lambda c: c.site.fabric.kind),
    Variable(
        "nccl",
        "rail_optimized",
        "bool",
        "site",
        "Whether each rail has leaves of its own.",
        lambda c: c.site.fabric.topology == "rail-optimized",
    ),
    Variable(
        "nccl",
        "devices",
        "list",
        "site",
        "RDMA devices by rail; empty: NCCL finds them.",
        lambda c: list(c.site.rack.rails),
    ),
    Variable(
        "nccl", "traffic_class", "int", "site", "Traffic class of its packets (RoCE only).", _traffic_class
    ),
    Variable("gpudirect", "gdrcopy_version", "str", "fleet", "Version of GDRCopy.", lambda c: c.lock.gdrcopy),
    Variable(
        "gpudirect",
        "open_modules",
        "bool",
        "site",
        "Whether the driver's open modules are in use: DMA-BUF needs them.",
        _open_modules,
    ),
    Variable(
        "gpudirect",
        "gdrcopy",
        "bool",
        "site",
        "Whether GDRCopy is installed: NVIDIA has it in no repository, a mirror may.",
        lambda c: bool(c.site.rack.package_mirror),
    ),
    Variable(
        "gpudirect",
        "cuda_version",
        "str",
        "fleet",
        "The CUDA whose GPUDirect Storage is installed.",
        lambda c: c.lock.cuda,
    ),
    Variable(
        "container_toolkit",
        "version",
        "str",
        "fleet",
        "Version of the NVIDIA Container Toolkit.",
        lambda c: c.lock.container_toolkit,
    ),
    Variable("dcgm", "version", "str", "fleet", "Version of DCGM.", lambda c: c.lock.dcgm),
    Variable(
        "dcgm", "exporter_version", "str", "fleet", "Version of its exporter.", lambda c: c.lock.dcgm_exporter
    ),
    Variable(
        "dcgm",
        "cuda_major",
        "int",
        "fleet",
        "The CUDA that its packages are named after.",
        lambda c: int(c.lock.cuda.partition(".")[0]),
    ),
    Variable("dcgm", "gpus", "int", "site", "How many GPUs a node has.", lambda c: c.site.gpus_per_node),
    Variable(
        "health_check",
        "gpus",
        "int",
        "site",
        "How many GPUs a node must show.",
        lambda c: c.site.gpus_per_node,
    ),
    Variable(
        "health_check",
        "gpu",
        "str",
        "site",
        "The GPU, for the action that an Xid asks for.",
        lambda c: c.site.gpu,
    ),
    Variable(
        "health_check",
        "nvswitches",
        "int",
        "site",
        "NVSwitches of a node; left out where nobody published it.",
        lambda c: c.system.nvswitches,
    ),
    Variable(
        "health_check",
        "adapters",
        "int",
        "site",
        "Compute adapters of a node; left out where nobody published it.",
        lambda c: c.system.compute_nics,
    ),
    Variable(
        "health_check",
        "devices",
        "list",
        "site",
        "RDMA devices by rail; empty: all that are there.",
        lambda c: list(c.site.rack.rails),
    ),
    Variable(
        "health_check",
        "fabric_kind",
        "str",
        "site",
        "`infiniband` or `roce`.",
        lambda c: c.site.fabric.kind,
    ),
    Variable(
        "health_check",
        "link_gbps",
        "int",
        "site",
        "Speed that every fabric port has to show, in Gb/s.",
        lambda c: c.site.rack.link_gbps,
    ),
    Variable(
        "health_check",
        "driver_version",
        "str",
        "fleet",
        "The driver that has to be loaded.",
        lambda c: c.lock.driver,
    ),
    Variable(
        "health_check",
        "slurm",
        "bool",
        "site",
        "Whether Slurm runs it (prolog, epilog, health check program) and nodes are drained.",
        lambda c: c.site.rack.slurm is not None and c.site.rack.slurm.health_check,
    ),
    Variable(
        "pyxis_enroot",
        "scratch",
        "str",
        "site",
        "Where images are unpacked: the nodes' own drives, if they are used.",
        _scratch,
    ),
)
