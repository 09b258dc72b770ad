"""The dashboards Fleet and Node."""

from __future__ import annotations

from ansible_collections.gpufleet.rack.plugins.module_utils.dashboards import (
    Dashboard,
    Panel,
    graph,
    rate,
    stat,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.dashboards_of_fabric import RECEIVED, SENT

NODES = 'instance=~"$instance"'
GPU = "{{instance}} GPU {{gpu}}"
MIG = f"{GPU} {{{{GPU_I_PROFILE}}}} {{{{GPU_I_ID}}}}"
XIDS = "DCGM_EXP_XID_ERRORS_COUNT"


def by_gpu(metric: str, how: str = "max") -> str:
    """One value for each GPU. With MIG, DCGM repeats a figure of the GPU for each of its instances."""
    return f"{how} by (instance, gpu) ({metric}{{{NODES}}})"


def by_instance(metric: str) -> str:
    """One value for each MIG instance."""
    return f'max by (instance, gpu, GPU_I_ID, GPU_I_PROFILE) ({metric}{{GPU_I_ID!="", {NODES}}})'


FLEET = Dashboard(
    "fleet",
    "Fleet",
    "All nodes at a glance: how many work, how hard, and what is wrong.",
    (
        (
            "Now",
            (
                stat("GPU nodes up", "short", 'sum(up{job="node", role="gpu"})'),
                stat("GPUs seen", "short", "sum(gpufleet:gpus_seen:count)"),
                stat(
                    "GPUs held by jobs",
                    "percentunit",
                    'sum(slurm_gpus_allocated{partition=""}) / sum(slurm_gpus{partition=""})',
                    limits=(0.7, 0.4),
                ),
                stat("GPU load", "percent", "avg(gpufleet:gpu_load:percent)", limits=(60, 30)),
                stat("Power of all nodes", "watt", "sum(gpufleet:node_watts:sum)"),
                stat(
                    "Alerts",
                    "short",
                    'count(ALERTS{alertstate="firing", alertname!="Watchdog"}) or vector(0)',
                    limits=(1, 5),
                ),
            ),
        ),
        (
            "Load",
            (
                graph(
                    "GPU load by node",
                    "percent",
                    ("avg by (instance) (gpufleet:gpu_load:percent)", "{{instance}}"),
                ),
                graph(
                    "Tensor cores by node",
                    "percentunit",
                    ("avg by (instance) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)", "{{instance}}"),
                    about="Share of cycles in which tensor cores work: load says only that a kernel runs.",
                ),
                graph(
                    "GPU memory by node",
                    "percentunit",
                    (
                        (
                            "sum by (instance) (DCGM_FI_DEV_FB_USED) / "
                            "sum by (instance) (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)"
                        ),
                        "{{instance}}",
                    ),
                ),
                graph(
                    "Hottest GPU by node",
                    "celsius",
                    ("max by (instance) (DCGM_FI_DEV_GPU_TEMP)", "{{instance}}"),
                ),
            ),
        ),
        (
            "Health",
            (
                graph(
                    "Nodes in Slurm",
                    "short",
                    ('sum by (state) (slurm_nodes{partition=""})', "{{state}}"),
                    stack=True,
                ),
                graph(
                    "Alerts by name",
                    "short",
                    (
                        'count by (alertname) (ALERTS{alertstate="firing", alertname!="Watchdog"})',
                        "{{alertname}}",
                    ),
                    stack=True,
                ),
                Panel(
                    "Nodes that take no jobs",
                    "table",
                    "s",
                    (("time() - slurm_node_unavailable_since_seconds", ""),),
                    columns=("node", "state", "reason", "user"),
                    value="since",
                ),
                Panel(
                    "Xids of the last day",
                    "table",
                    "short",
                    ((f'max by (instance, gpu, xid) (max_over_time({XIDS}{{xid!=""}}[1d])) > 0', ""),),
                    columns=("instance", "gpu", "xid"),
                    value="most in five minutes",
                ),
            ),
        ),
    ),
)

NODE = Dashboard(
    "node",
    "Node",
    "One node or some: its GPUs, its host, its ports.",
    (
        (
            "GPUs",
            (
                graph("Load", "percent", (f"gpufleet:gpu_load:percent{{{NODES}}}", GPU)),
                graph("Tensor cores", "percentunit", (by_gpu("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "avg"), GPU)),
                graph("Memory in use", "decmbytes", (by_gpu("DCGM_FI_DEV_FB_USED", "sum"), GPU)),
                graph("Power", "watt", (f"gpufleet:gpu_watts{{{NODES}}}", GPU)),
                graph(
                    "Temperature",
                    "celsius",
                    (by_gpu("DCGM_FI_DEV_GPU_TEMP"), GPU),
                    (by_gpu("DCGM_FI_DEV_MEMORY_TEMP"), f"{GPU} memory"),
                ),
                graph("SM clock", "rotmhz", (by_gpu("DCGM_FI_DEV_SM_CLOCK"), GPU)),
                graph(
                    "NVLink",
                    "Bps",
                    (by_gpu("DCGM_FI_PROF_NVLINK_TX_BYTES"), f"{GPU} sent"),
                    (by_gpu("DCGM_FI_PROF_NVLINK_RX_BYTES"), f"{GPU} received"),
                ),
                graph(
                    "Memory errors since the driver was loaded",
                    "short",
                    (by_gpu("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"), f"{GPU} corrected"),
                    (by_gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"), f"{GPU} uncorrectable"),
                ),
            ),
        ),
        (
            "MIG instances: empty without MIG",
            (
                graph(
                    "Engine by instance", "percentunit", (by_instance("DCGM_FI_PROF_GR_ENGINE_ACTIVE"), MIG)
                ),
                graph("Memory in use by instance", "decmbytes", (by_instance("DCGM_FI_DEV_FB_USED"), MIG)),
            ),
        ),
        (
            "Host",
            (
                graph(
                    "Processors",
                    "percentunit",
                    (
                        "1 - " + rate(f'node_cpu_seconds_total{{mode="idle", {NODES}}}', "instance", "avg"),
                        "{{instance}}",
                    ),
                ),
                graph(
                    "Memory in use",
                    "percentunit",
                    (
                        f"1 - node_memory_MemAvailable_bytes{{{NODES}}} / node_memory_MemTotal_bytes",
                        "{{instance}}",
                    ),
                ),
                graph(
                    "Room on file systems",
                    "percentunit",
                    (
                        (
                            f'node_filesystem_avail_bytes{{fstype!~"tmpfs|ramfs|squashfs", {NODES}}} / '
                            "node_filesystem_size_bytes"
                        ),
                        "{{instance}} {{mountpoint}}",
                    ),
                ),
                graph("Clock", "s", (f"node_timex_offset_seconds{{{NODES}}}", "{{instance}}")),
                graph(
                    "Ethernet",
                    "Bps",
                    (
                        rate(f'node_network_receive_bytes_total{{device!="lo", {NODES}}}', "instance"),
                        "{{instance}} received",
                    ),
                    (
                        rate(f'node_network_transmit_bytes_total{{device!="lo", {NODES}}}', "instance"),
                        "{{instance}} sent",
                    ),
                ),
                graph(
                    "InfiniBand",
                    "Bps",
                    (
                        rate(f"{RECEIVED}{{{NODES}}}", "instance, device"),
                        "{{instance}} {{device}} received",
                    ),
                    (
                        rate(f"{SENT}{{{NODES}}}", "instance, device"),
                        "{{instance}} {{device}} sent",
                    ),
                ),
                Panel(
                    "What the health check finds",
                    "table",
                    "short",
                    ((f"gpufleet_health_findings{{{NODES}}} > 0", ""),),
                    columns=("instance", "check", "action"),
                    value="findings",
                ),
                Panel(
                    "Units that have failed",
                    "table",
                    "short",
                    ((f'node_systemd_unit_state{{state="failed", {NODES}}} == 1', ""),),
                    columns=("instance", "name"),
                    value="failed",
                ),
            ),
        ),
    ),
    by_node=True,
)
