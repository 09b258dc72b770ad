"""The dashboards Fleet, Node and Fabric."""

from __future__ import annotations

from ansible_collections.gpufleet.rack.plugins.module_utils.dashboards import (
    Dashboard,
    Panel,
    graph,
    rate,
    stat,
)

NODES = 'instance=~"$instance"'
RATE = "[$__rate_interval]"
RECEIVED = "node_infiniband_port_data_received_bytes_total"
SENT = "node_infiniband_port_data_transmitted_bytes_total"
GPU = "{{instance}} GPU {{gpu}}"
PORT = "{{instance}} {{device}}/{{port}}"

FLEET = Dashboard(
    "fleet",
    "Fleet",
    "All nodes at a glance: how many work, how hard, and what is wrong.",
    (
        (
            "Now",
            (
                stat("GPU nodes up", "short", 'sum(up{job="node", role="gpu"})'),
                stat("GPUs seen", "short", "count(DCGM_FI_DEV_GPU_TEMP)"),
                stat(
                    "GPUs held by jobs",
                    "percentunit",
                    'sum(slurm_gpus_allocated{partition=""}) / sum(slurm_gpus{partition=""})',
                    limits=(0.7, 0.4),
                ),
                stat("GPU load", "percent", "avg(DCGM_FI_DEV_GPU_UTIL)", limits=(60, 30)),
                stat("Power of all nodes", "watt", "sum(gpufleet:node_watts:sum)"),
                stat("Alerts", "short", 'count(ALERTS{alertstate="firing"}) or vector(0)', limits=(1, 5)),
            ),
        ),
        (
            "Load",
            (
                graph(
                    "GPU load by node",
                    "percent",
                    ("avg by (instance) (DCGM_FI_DEV_GPU_UTIL)", "{{instance}}"),
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
                    ('count by (alertname) (ALERTS{alertstate="firing"})', "{{alertname}}"),
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
                    "Last Xid of GPUs",
                    "table",
                    "short",
                    (("max by (instance, gpu) (DCGM_FI_DEV_XID_ERRORS) > 0", ""),),
                    columns=("instance", "gpu"),
                    value="Xid",
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
                graph("Load", "percent", (f"DCGM_FI_DEV_GPU_UTIL{{{NODES}}}", GPU)),
                graph("Tensor cores", "percentunit", (f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{NODES}}}", GPU)),
                graph("Memory in use", "decmbytes", (f"DCGM_FI_DEV_FB_USED{{{NODES}}}", GPU)),
                graph("Power", "watt", (f"DCGM_FI_DEV_POWER_USAGE{{{NODES}}}", GPU)),
                graph(
                    "Temperature",
                    "celsius",
                    (f"DCGM_FI_DEV_GPU_TEMP{{{NODES}}}", GPU),
                    (f"DCGM_FI_DEV_MEMORY_TEMP{{{NODES}}}", f"{GPU} memory"),
                ),
                graph("SM clock", "rotmhz", (f"DCGM_FI_DEV_SM_CLOCK{{{NODES}}}", GPU)),
                graph(
                    "NVLink",
                    "Bps",
                    (f"DCGM_FI_PROF_NVLINK_TX_BYTES{{{NODES}}}", f"{GPU} sent"),
                    (f"DCGM_FI_PROF_NVLINK_RX_BYTES{{{NODES}}}", f"{GPU} received"),
                ),
                graph(
                    "Memory errors since the driver was loaded",
                    "short",
                    (f"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{{{NODES}}}", f"{GPU} corrected"),
                    (f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{NODES}}}", f"{GPU} uncorrectable"),
                ),
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

FABRIC = Dashboard(
    "fabric",
    "Fabric",
    "InfiniBand as the nodes' adapters see it.",
    (
        (
            "Now",
            (
                stat("Ports up at full rate", "short", "sum(gpufleet:ports_up:sum)", width=6),
                stat(
                    "Ports missing",
                    "short",
                    "sum(scalar(gpufleet:ports_expected) - gpufleet:ports_up:sum)",
                    limits=(1, 2),
                    width=6,
                ),
                stat(
                    "Subnet managers",
                    "short",
                    'sum(node_systemd_unit_state{name="gpufleet-opensm.service", state="active"})',
                    limits=(2, 1),
                    width=6,
                ),
                stat(
                    "Links down in a day",
                    "short",
                    "sum(increase(node_infiniband_link_downed_total[1d]))",
                    limits=(1, 10),
                    width=6,
                ),
            ),
        ),
        (
            "Traffic",
            (
                graph(
                    "Received by node",
                    "Bps",
                    (
                        rate(RECEIVED, "instance"),
                        "{{instance}}",
                    ),
                ),
                graph(
                    "Received by rail",
                    "Bps",
                    (
                        rate(RECEIVED, "device"),
                        "{{device}}",
                    ),
                    about="Rails that carry less than the others are slow or are not used by NCCL.",
                ),
                graph(
                    "Share of the link in use, busiest port of a node",
                    "percentunit",
                    (
                        f"max by (instance) (rate({SENT}{RATE}) / node_infiniband_rate_bytes_per_second)",
                        "{{instance}}",
                    ),
                ),
                graph(
                    "Ticks in which data waited for credits",
                    "short",
                    (
                        rate("node_infiniband_port_transmit_wait_total", "instance"),
                        "{{instance}}",
                    ),
                    about="Congestion: PortXmitWait of the ports.",
                ),
            ),
        ),
        (
            "Errors",
            (
                graph(
                    "Errors in an hour, worst ports",
                    "short",
                    (
                        (
                            "topk(20, increase(node_infiniband_symbol_error_total[1h]) + "
                            "increase(node_infiniband_port_errors_received_total[1h]))"
                        ),
                        PORT,
                    ),
                ),
                graph(
                    "Recoveries and failures of links in an hour, worst ports",
                    "short",
                    (
                        (
                            "topk(20, increase(node_infiniband_link_error_recovery_total[1h]) + "
                            "increase(node_infiniband_link_downed_total[1h]))"
                        ),
                        PORT,
                    ),
                ),
                Panel(
                    "Ports that are not active",
                    "table",
                    "short",
                    (('node_infiniband_state_id{role="gpu"} != 4', ""),),
                    columns=("instance", "device", "port"),
                    value="state (1 down, 2 init, 3 armed)",
                ),
                Panel(
                    "Ports below the fabric's rate",
                    "table",
                    "Bps",
                    (
                        (
                            (
                                'node_infiniband_rate_bytes_per_second{role="gpu"} < on () group_left () '
                                "gpufleet:link_bytes_per_second"
                            ),
                            "",
                        ),
                    ),
                    columns=("instance", "device", "port"),
                    value="rate",
                ),
            ),
        ),
    ),
)
