"""Faults of monitoring: role, changed measurements, the check that finds them, the message."""

from __future__ import annotations

from typing import Any

from .samples import NODE_METRICS, PROMETHEUS

MONITORING_FAULTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("node_exporter", {"metrics": "node_x 1\n"}, "metrics", "node_uname_info is missing"),
    (
        "node_exporter",
        {"metrics": NODE_METRICS.replace("scrape_error 0", "scrape_error 1")},
        "metrics",
        "a *.prom file in its folder cannot be read",
    ),
    (
        "node_exporter",
        {"metrics": NODE_METRICS.replace('"systemd"} 1', '"systemd"} 0')},
        "metrics",
        "its collectors systemd fail",
    ),
    ("slurm_exporter", {"service": (3, "failed\n")}, "service", "gpufleet-slurm-exporter is failed"),
    (
        "slurm_exporter",
        {"sources": 'slurm_exporter_source_up{source="sacct"} 0\n'},
        "sources",
        "no response of sacct",
    ),
    ("slurm_exporter", {"sources": ""}, "sources", "it reports no sources"),
    ("alertmanager", {"service": (3, "failed\n")}, "service", "prometheus-alertmanager is failed"),
    ("alertmanager", {"config": (1, "FAILED: no route")}, "configuration", "exit code 1: FAILED: no route"),
    (
        "alertmanager",
        {"secret_mode": "prometheus 644\n"},
        "secrets",
        "prometheus 644 instead of prometheus 600",
    ),
    ("alertmanager", {"ready": (1, "refused")}, "ready", "exit code 1: refused"),
    ("prometheus", {"service": (3, "failed\n")}, "service", "prometheus is failed"),
    ("prometheus", {"config": (1, "FAILED")}, "configuration", "exit code 1: FAILED"),
    (
        "prometheus",
        {"listens": "LISTEN 0 4096 *:9090 *:*\n"},
        "listens",
        "it listens on *:9090",
    ),
    ("prometheus", {"listens": ""}, "listens", "no process listens on port 9090"),
    (
        "prometheus",
        {"api": PROMETHEUS.replace('["dcgm", "dgx01", "up", ""]', '["dcgm", "dgx01", "down", "refused"]')},
        "targets",
        "no answer: dcgm of dgx01 (refused)",
    ),
    (
        "prometheus",
        {"api": PROMETHEUS.replace('["node", "ctl01", "up", ""]', '["node", "dgx01", "up", ""]')},
        "targets",
        "never asked: ctl01",
    ),
    (
        "prometheus",
        {"api": PROMETHEUS.replace('"gpufleet-power": 5', '"gpufleet-power": 0')},
        "rules",
        "without rules of power",
    ),
    (
        "prometheus",
        {"api": PROMETHEUS.replace('"broken_rules": []', '"broken_rules": ["GpuXid"]')},
        "rules",
        "GpuXid fail",
    ),
    (
        "prometheus",
        {"api": PROMETHEUS.replace('"alertmanagers": 1', '"alertmanagers": 0')},
        "alertmanager",
        "it has no Alertmanager: no alert is delivered",
    ),
    ("grafana", {"service": (3, "failed\n")}, "service", "grafana-server is failed"),
    ("grafana", {"secret_mode": "root 644\n"}, "password", "root 644 instead of grafana 400"),
    ("grafana", {"login": "401\n"}, "login", "401 instead of 200"),
    ("grafana", {"dashboards": "fleet.json\n"}, "dashboards", "without node, fabric, cost, power, jobs"),
    ("grafana", {"health": '{"database": "failing"}'}, "health", "its database is failing"),
]
