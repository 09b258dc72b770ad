"""The dashboard Fabric: ports, traffic and errors."""

from __future__ import annotations

from ansible_collections.gpufleet.rack.plugins.module_utils.dashboards import (
    Dashboard,
    Panel,
    graph,
    rate,
    stat,
)

RATE = "[$__rate_interval]"
RECEIVED = "node_infiniband_port_data_received_bytes_total"
SENT = "node_infiniband_port_data_transmitted_bytes_total"
PORT = "{{instance}} {{device}}/{{port}}"

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
