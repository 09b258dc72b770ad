"""Measurements of one run: all programs in parallel, and their output."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace

from health.commands import TIMED_OUT, CommandResult, alive, run, run_all
from health.config import Config
from health.memory import Memory

GPU_FIELDS = (
    *("index", "uuid", "pci.bus_id", "name", "driver_version", "mig.mode.current", "utilization.gpu"),
    *("ecc.mode.current", "ecc.errors.uncorrected.volatile.total"),
    *("retired_pages.single_bit_ecc.count", "retired_pages.double_bit.count", "retired_pages.pending"),
    *("pcie.link.width.current", "pcie.link.width.max"),
    *("pcie.link.gen.current", "pcie.link.gen.max"),
    *("clocks_event_reasons.hw_slowdown", "clocks_event_reasons.hw_thermal_slowdown"),
    *("clocks_event_reasons.hw_power_brake_slowdown", "clocks_event_reasons.sw_thermal_slowdown"),
    *("temperature.gpu", "fabric.state", "fabric.status", "gpu_recovery_action"),
)
# Older drivers refuse a query with these fields.
OPTIONAL = ("gpu_recovery_action", "fabric.status", "fabric.state")
ROW_FIELDS = ("gpu_bus_id", "remapped_rows.pending", "remapped_rows.failure")
UNKNOWN_FIELD = "is not a valid field to query"
SMI = "nvidia-smi"
# nvidia-smi's exit code where the InfoROM of a GPU is corrupt: what it prints is right (nvidia-smi(1)).
INFOROM_CORRUPT = 14
INFOROM_WARNING = re.compile(r"infoROM is corrupted at gpu ([0-9a-fA-F:.]+)", re.IGNORECASE)
# Not before and after a job, which waits for them.
PERIODIC = {
    "ibstat": ["ibstat"],
    "network": [
        *("journalctl", "--no-pager", "--quiet", "--output=short", "--since=-24h"),
        "--identifier=systemd-networkd",
    ],
}


@dataclass
class Readings:
    """Results by name, and their time."""

    now: float
    done: dict[str, CommandResult] = field(default_factory=dict)
    gpu_fields: tuple[str, ...] = GPU_FIELDS

    def ok(self, name: str) -> bool:
        """Whether the program ran and its answer can be read."""
        if name not in self.done:
            return False
        done = self.done[name]
        return done.code == 0 or (
            done.code == INFOROM_CORRUPT and bool(INFOROM_WARNING.search(done.out + done.err))
        )

    def corrupt_inforoms(self) -> list[str]:
        """Return the PCI addresses of GPUs of which nvidia-smi says that their InfoROM is corrupt."""
        output = "\n".join(
            done.out + done.err for done in self.done.values() if "infoROM" in done.out + done.err
        )
        return sorted(set(INFOROM_WARNING.findall(output)))


def take(
    config: Config,
    memory: Memory,
    limit_s: float,
    *,
    node: list[str] | None = None,
    dcgm: bool = True,
    periodic: bool = False,
) -> Readings:
    """Run all programs. A program that still hangs from an earlier run is not started again.

    `node` is the command that shows the node in its scheduler. Without `dcgm`, DCGM is not asked: a host
    engine that hangs would delay every job.
    """
    readings = Readings(time.time())
    readings.gpu_fields = tuple(name for name in GPU_FIELDS if name not in memory.unsupported)
    commands = _commands(config, readings.gpu_fields)
    if node:
        commands["node"] = node
    if not dcgm:
        del commands["dcgm"]
    if periodic:
        commands |= PERIODIC
    pid = memory.hung.get(SMI, 0)
    if pid and alive(pid):
        stuck = CommandResult(
            TIMED_OUT, err=f"{SMI} hangs in the kernel since an earlier run (process {pid})"
        )
        for name in [name for name, words in commands.items() if words[0] == SMI]:
            del commands[name]
            readings.done[name] = stuck
    else:
        memory.hung.pop(SMI, None)
    started = time.monotonic()
    readings.done.update(run_all(commands, limit_s))
    for name, words in commands.items():
        if words[0] == SMI and readings.done[name].left:
            memory.hung[SMI] = readings.done[name].left
    _without_unknown_fields(readings, memory, max(1.0, limit_s - (time.monotonic() - started)))
    return readings


def _commands(config: Config, gpu_fields: tuple[str, ...]) -> dict[str, list[str]]:
    commands = {
        "gpus": [SMI, f"--query-gpu={','.join(gpu_fields)}", "--format=csv,noheader,nounits"],
        "rows": [SMI, f"--query-remapped-rows={','.join(ROW_FIELDS)}", "--format=csv,noheader,nounits"],
        "nvlinks": [SMI, "nvlink", "--status"],
        "nvlink_errors": [SMI, "nvlink", "--errorcounters"],
        "dcgm": ["dcgmi", "health", "--check", "--json"],
        "kernel": ["dmesg", "--color=never"],
        "clock": ["chronyc", "-c", "tracking"],
    }
    if config.nvswitches:
        commands["fabric_manager"] = ["systemctl", "is-active", "nvidia-fabricmanager.service"]
    return commands


def _without_unknown_fields(readings: Readings, memory: Memory, limit_s: float) -> None:
    """Repeat the query without fields that this driver does not support, and record that."""
    answer = readings.done["gpus"]
    if UNKNOWN_FIELD not in answer.out + answer.err:
        return
    memory.unsupported = sorted({*memory.unsupported, *OPTIONAL})
    readings.gpu_fields = tuple(name for name in GPU_FIELDS if name not in OPTIONAL)
    command = [SMI, f"--query-gpu={','.join(readings.gpu_fields)}", "--format=csv,noheader,nounits"]
    readings.done["gpus"] = replace(run(command, limit_s))
