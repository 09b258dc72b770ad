"""A node in a folder: /sys and /proc below it, and stand-ins for the programs of the health check."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

FILES = Path(__file__).resolve().parents[4] / "ansible" / "roles" / "health_check" / "files"
sys.path.insert(0, str(FILES))

from health import main as program  # noqa: E402 - the program of the role, as nodes have it
from health.readings import GPU_FIELDS  # noqa: E402

BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
HEALTHY_GPU = {
    "name": "NVIDIA H100 80GB HBM3",
    "driver_version": "580.159.03",
    "mig.mode.current": "Disabled",
    "utilization.gpu": "0",
    "ecc.mode.current": "Enabled",
    "ecc.errors.uncorrected.volatile.total": "0",
    "retired_pages.single_bit_ecc.count": "[N/A]",
    "retired_pages.double_bit.count": "[N/A]",
    "retired_pages.pending": "[N/A]",
    "pcie.link.width.current": "16",
    "pcie.link.width.max": "16",
    "pcie.link.gen.current": "5",
    "pcie.link.gen.max": "5",
    "clocks_event_reasons.hw_slowdown": "Not Active",
    "clocks_event_reasons.hw_thermal_slowdown": "Not Active",
    "clocks_event_reasons.hw_power_brake_slowdown": "Not Active",
    "clocks_event_reasons.sw_thermal_slowdown": "Not Active",
    "temperature.gpu": "32",
    "fabric.state": "Completed",
    "fabric.status": "Success",
    "gpu_recovery_action": "None",
}
SMI = """#!/bin/sh
case "$1" in
  --query-gpu=*gpu_recovery_action*) [ -e {here}/old-driver ] && {{
      echo 'Field "gpu_recovery_action" is not a valid field to query.'; exit 2; }}
      cat {here}/gpus {here}/warning; exit $(cat {here}/gpus.code) ;;
  --query-gpu=*) cut -d, -f1-{short} {here}/gpus; exit $(cat {here}/gpus.code) ;;
  --query-remapped-rows=*) cat {here}/rows; exit $(cat {here}/gpus.code) ;;
  nvlink) cat {here}/nvlink$2; exit $(cat {here}/nvlink.code) ;;
esac
exit 3
"""
SCONTROL = """#!/bin/sh
if [ "$1" = --oneliner ]; then cat {here}/node; exit $(cat {here}/node.code); fi
printf '%s\\n' "$*" >>{here}/orders
grep -qx 0 {here}/update.code || exit 1
case "$3" in
  State=DRAIN) echo "NodeName=dgx01 State=IDLE+DRAIN X=1 $4 [root@2026-01-01T00:00:00]" >{here}/node ;;
  State=RESUME) echo "NodeName=dgx01 State=IDLE X=1" >{here}/node ;;
esac
"""


class Node:
    """A healthy node; tests break it. `run` runs the health check on it and records its output and orders.

    `printed` holds what a program prints in place of that, by the file that it prints (`nvlink--status`).
    """

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.bin = folder / "root", folder / "bin"
        self.bin.mkdir()
        self._capsys = capsys
        self.gpus = [
            {"index": str(i), "uuid": f"GPU-{i}", "pci.bus_id": f"00000000:{bus.upper()}:00.0"} | HEALTHY_GPU
            for i, bus in enumerate(BUSES)
        ]
        self.rows = [[gpu["pci.bus_id"], "No", "No"] for gpu in self.gpus]
        self.links = {(gpu, link): "26.562 GB/s" for gpu in range(8) for link in range(18)}
        self.link_errors = dict.fromkeys(self.links, 0)
        self.printed: dict[str, str] = {}
        self.log: list[str] = ["[    0.000000] Linux version 6.8.0"]
        self.config: dict[str, Any] = {
            "node": "dgx01",
            "gpus": 8,
            "gpu": "H100",
            "nvswitches": 4,
            "adapters": 8,
            "link_gbps": 400,
            "driver_version": "580.159.03",
            "slurm": True,
            "recovery_runs": 2,
            "xid_actions": {"ISOLATE": [54], "REBOOT": [79], "RESET": [48, 64, 95], "MONITOR": [13, 63]},
            "xid_overrides": {"A100": {"REBOOT": [64, 95]}},
            "timeout_s": 2,
            "prolog_timeout_s": 2,
            "disk_paths": ["/scratch"],
            "root": str(self.root),
        }
        self.file("sys/module/nvidia/version", "580.159.03")
        self.file("sys/module/nvidia_uvm/refcnt", "2")
        self.file("proc/sys/kernel/random/boot_id", "first-boot")
        self.file("proc/meminfo", "MemTotal: 2000000000 kB\nMemAvailable: 1900000000 kB")
        self.file("proc/self/mountinfo", "25 30 8:1 / / rw,noatime - ext4 /dev/sda1 rw")
        self.file("etc/fstab", "/dev/sda1 / ext4 defaults 0 1")
        for bus in BUSES:
            self.function(f"0000:{bus}:00.0", vendor="0x10de", **{"class": "0x030200"})
        for port in range(8):
            self.port(port)
        (self.root / "scratch").mkdir()
        (self.root / "var/lib/prometheus/node-exporter").mkdir(parents=True)
        for name, text in (
            ("gpus.code", "0"),
            ("warning", ""),
            ("nvlink.code", "0"),
            ("node.code", "0"),
            ("update.code", "0"),
            ("fabric", "active"),
            ("clock", "C0A80001,ntp1,3,1700000000.0,0.000012,0.0,0.0,0,0,0,0,0,64.0,Normal"),
        ):
            self.answer(name, text)
        self.slurm("IDLE")
        here, short = self.bin, len(GPU_FIELDS) - 3
        self.program("nvidia-smi", SMI.format(here=here, short=short))
        self.program("scontrol", SCONTROL.format(here=here))
        self.answer("ibstat.code", "0")
        self.program("ibstat", f"#!/bin/sh\ncat {here}/ibstat.out; exit $(cat {here}/ibstat.code)\n")
        self.program("journalctl", f"#!/bin/sh\ncat {here}/journal\n")
        self.program("dmesg", f"#!/bin/sh\ncat {here}/log\n")
        self.program("chronyc", f"#!/bin/sh\ncat {here}/clock\n")
        self.program("systemctl", f"#!/bin/sh\ncat {here}/fabric; grep -qx active {here}/fabric || exit 3\n")

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def answer(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text + "\n")

    def file(self, path: str, text: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text + "\n")

    def function(self, address: str, **values: str) -> None:
        for name, value in values.items():
            self.file(f"sys/bus/pci/devices/{address}/{name}", value)

    def port(self, number: int, **changes: str) -> None:
        values = {
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": "400 Gb/sec (4X NDR)",
            "link_layer": "InfiniBand",
            "counters/link_downed": "0",
            "counters/symbol_error": "0",
            "../../device/current_link_width": "16",
            "../../device/max_link_width": "16",
        } | changes
        folder = f"sys/class/infiniband/mlx5_{number}"
        (self.root / folder / "ports/1").mkdir(parents=True, exist_ok=True)
        for name, value in values.items():
            place = f"{folder}/{name[6:]}" if name.startswith("../") else f"{folder}/ports/1/{name}"
            self.file(place, value)

    def dcgm(self, text: str) -> None:
        """What `dcgmi health` reports from now on."""
        self.answer("dcgm-health", text)
        self._dcgmi()

    def diag(self, text: str) -> None:
        """What `dcgmi diag` reports from now on."""
        self.answer("dcgm-diag", text)
        self._dcgmi()

    def _dcgmi(self) -> None:
        self.program("dcgmi", f"#!/bin/sh\ncat {self.bin}/dcgm-$1\n")
        (self.bin.parent / "health.json").write_text(json.dumps(self.config))
        (self.root / "var/lib/gpufleet/health").mkdir(parents=True, exist_ok=True)

    def slurm(self, state: str, reason: str = "") -> None:
        reported = f" Reason={reason} [root@2026-01-01T00:00:00]" if reason else ""
        self.answer("node", f"NodeName=dgx01 Arch=x86_64 Gres=gpu:8 State={state} ThreadsPerCore=1{reported}")

    def xid(self, number: int, gpu: int = 0, at: float = 100.0, text: str = "pid=1, name=x, train") -> None:
        self.log.append(f"[{at:12.6f}] NVRM: Xid (PCI:0000:{BUSES[gpu]}:00): {number}, {text}")

    def run(self, mode: str = "periodic") -> int:
        """One run of the program on the node as it is now; its exit code."""
        lines = [", ".join(gpu[name] for name in GPU_FIELDS) for gpu in self.gpus]
        self.answer("gpus", "\n".join(lines))
        self.answer("rows", "\n".join(", ".join(row) for row in self.rows))
        status, errors = [], []
        for (gpu, link), speed in self.links.items():
            if link == 0:
                for text in (status, errors):
                    text.append(f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-{gpu})")
            status.append(f"\t Link {link}: {speed}")
            errors.append(f"\t Link {link}: Replay Errors: {self.link_errors[gpu, link]}")
        self.answer("nvlink--status", "\n".join(status))
        self.answer("nvlink--errorcounters", "\n".join(errors))
        self.answer("log", "\n".join(self.log))
        self.answer("ibstat.out", "CA 'mlx5_0'")
        self.answer("journal", "Aug 17 00:00:24 dgx01 systemd-networkd[9]: eno1: Gained carrier")
        for name, text in self.printed.items():
            self.answer(name, text)
        (self.bin.parent / "health.json").write_text(json.dumps(self.config))
        return program.main([mode])

    def show(self) -> dict[str, Any]:
        """Output of `show`."""
        self._capsys.readouterr()
        self.run("show")
        return json.loads(self._capsys.readouterr().out)

    @property
    def found(self) -> dict[str, tuple[str, str]]:
        """Check -> (action, text) of the last run that was kept."""
        text = (self.root / "var/lib/gpufleet/health/findings.json").read_text()
        return {
            item["check"]: (item["action"], f"{item['subject']} {item['message']}".strip())
            for item in json.loads(text)["findings"]
        }

    @property
    def orders(self) -> list[str]:
        """Orders for slurmctld since the last call."""
        path = self.bin / "orders"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    @property
    def metrics(self) -> str:
        return (self.root / "var/lib/prometheus/node-exporter/gpufleet_health.prom").read_text()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Node:
    made = Node(tmp_path, capsys)
    monkeypatch.setenv("GPUFLEET_HEALTH_CONFIG", str(tmp_path / "health.json"))
    monkeypatch.setenv("GPUFLEET_HEALTH_PATH", f"{made.bin}:/usr/bin:/bin")
    return made
