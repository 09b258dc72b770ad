"""The configuration written by the role: /etc/gpufleet/health.json."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

FILE = "/etc/gpufleet/health.json"
UNKNOWN = -1


@dataclass(frozen=True)
class Config:
    """Expected values and limits of this node. -1 means unpublished."""

    node: str
    gpus: int
    gpu: str = ""
    nvswitches: int = UNKNOWN
    nvlinks: dict[str, int] = field(default_factory=dict)
    adapters: int = UNKNOWN
    devices: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    fabric_kind: str = "infiniband"
    link_gbps: int = 0
    driver_version: str = ""
    slurm: bool = False
    kubernetes: bool = False
    evict: bool = True
    mark: str = "gpufleet: "
    recovery_runs: int = 2
    timeout_s: float = 15.0
    prolog_timeout_s: float = 15.0
    actions: dict[str, str] = field(default_factory=dict)
    xid_actions: dict[str, list[int]] = field(default_factory=dict)
    xid_overrides: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    xid_monitor_hours: float = 24.0
    ecc_uncorrectable: int = 0
    port_flaps_per_day: int = 5
    port_errors_per_hour: dict[str, float] = field(default_factory=dict)
    nvlink_errors_per_hour: float = 0.0
    disk_paths: tuple[str, ...] = ("/", "/var", "/tmp")  # noqa: S108 - measured, not written to
    disk_min_free_percent: float = 3.0
    clock_offset_s: float = 1.0
    memory_min_available_percent: float = 1.0
    state_directory: str = "/var/lib/gpufleet/health"
    textfile_directory: str = "/var/lib/prometheus/node-exporter"
    root: str = "/"

    def path(self, absolute: str) -> Path:
        """A path on this node; tests use another root."""
        return Path(self.root) / absolute.lstrip("/")


def load(file: str = "") -> Config:
    """Read it. Raises ValueError for an invalid file, OSError for a missing one."""
    path = Path(file or os.environ.get("GPUFLEET_HEALTH_CONFIG", FILE))
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    known = {item.name for item in fields(Config)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise ValueError(f"{path} has {', '.join(unknown)}, which this program does not know")
    for name in ("devices", "bridges", "disk_paths"):
        if name in values:
            values[name] = tuple(values[name])
    return Config(**values)
