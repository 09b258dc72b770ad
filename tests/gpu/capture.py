"""Keep what the tools of a GPU host print, and the files of its kernel that gpufleet reads. Changes nothing.

    python -m tests.gpu.capture FOLDER [PREFIX]

Run it as root from the root of the repository, on a host with an NVIDIA driver. It writes the output of each
command into a file, their exit codes into `PREFIXcommands.json` and the kernel's files into
`PREFIXhost_files.json`. Identities are masked by `mask.py` before a result is kept.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S, LIMIT_BYTES = 30, 65536
MORE_FIELDS = {
    "power_cap": "index,name,power.limit,power.default_limit,power.min_limit,power.max_limit",
    "mig": "index,uuid,mig.mode.current,mig.mode.pending",
    "nvidia_driver": "index,name,uuid,driver_version,persistence_mode",
    "fabric_manager": "index,fabric.state,fabric.status",
}
ROW_FIELDS = (
    *("timestamp", "gpu_name", "gpu_bus_id", "gpu_serial", "gpu_uuid", "remapped_rows.correctable"),
    *("remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure"),
    *(f"remapped_rows.histogram.{name}" for name in ("max", "high", "partial", "low", "none")),
)
PCI = (
    *("vendor", "device", "class", "subsystem_vendor", "subsystem_device", "revision", "numa_node"),
    *("current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "iommu_group/type"),
    *("local_cpulist", "enable", "power_state"),
)
FILES = (
    *("/proc/driver/nvidia/**/*", "/proc/driver/nvidia-*/*", "/sys/module/nvidia*/version"),
    *("/sys/module/nvidia*/refcnt", "/sys/module/nvidia/parameters/*", "/proc/meminfo"),
    *("/proc/uptime", "/proc/modules", "/etc/os-release"),
    *("/sys/devices/system/cpu/online", "/sys/devices/system/cpu/cpu*/topology/physical_package_id"),
    *("/sys/devices/system/node/node*/cpulist", "/sys/kernel/mm/transparent_hugepage/enabled"),
    *("/sys/devices/system/edac/mc/mc*/ue_count", "/sys/class/iommu/*"),
)


def health_fields() -> tuple[str, str]:
    """The fields that the health check asks for: of GPUs and of rows."""
    sys.path.insert(0, str(ROOT / "ansible/roles/health_check/files"))
    readings = importlib.import_module("health.readings")
    return ",".join(readings.GPU_FIELDS), ",".join(readings.ROW_FIELDS)


def commands() -> dict[str, list[str]]:
    """File name -> command."""
    gpu_fields, row_fields = health_fields()
    smi, csv = "nvidia-smi", "--format=csv,noheader,nounits"
    found = {
        "table.txt": [smi],
        "L.txt": [smi, "-L"],
        "version.txt": [smi, "--version"],
        "q.txt": [smi, "-q"],
        "q-x.xml": [smi, "-q", "-x"],
        "topo-m.txt": [smi, "topo", "-m"],
        "topo-p2p-r.txt": [smi, "topo", "-p2p", "r"],
        "nvlink-s.txt": [smi, "nvlink", "-s"],
        "nvlink-e.txt": [smi, "nvlink", "-e"],
        "nvlink-c.txt": [smi, "nvlink", "-c"],
        "mig-lgip.txt": [smi, "mig", "-lgip"],
        "mig-lgipp.txt": [smi, "mig", "-lgipp"],
        "mig-lgi.txt": [smi, "mig", "-lgi"],
        "mig-lci.txt": [smi, "mig", "-lci"],
        "query-health.csv": [smi, f"--query-gpu={gpu_fields}", csv],
        "query-health-units.csv": [smi, f"--query-gpu={gpu_fields}", "--format=csv"],
        "query-unknown-field.txt": [smi, "--query-gpu=index,no_such_field", csv],
        "query-no-gpu.txt": [smi, "-i", "7", "--query-gpu=index", csv],
        "remapped-rows.csv": [smi, f"--query-remapped-rows={row_fields}", csv],
        "remapped-rows-all.csv": [
            *(smi, "--format=csv", f"--query-remapped-rows={','.join(ROW_FIELDS)}"),
        ],
        "retired-pages.csv": [
            smi,
            "--query-retired-pages=gpu_uuid,retired_pages.address,retired_pages.cause",
            "--format=csv",
        ],
        "compute-apps.csv": [
            smi,
            "--query-compute-apps=gpu_uuid,pid,process_name,used_memory",
            "--format=csv",
        ],
        "compute-apps-mig.csv": [
            smi,
            "--query-compute-apps=gpu_uuid,pid,process_name",
            "--format=csv,noheader",
        ],
        "pmon.txt": [smi, "pmon", "-c", "1"],
        "dmon.txt": [smi, "dmon", "-c", "2"],
        "mig-lcip.txt": [smi, "mig", "-lcip"],
        "dmesg.log": ["sh", "-c", "dmesg --color=never | grep -E 'NVRM|nvidia|\\[10de:'"],
        "lspci.txt": ["lspci", "-vvv", "-nn", "-d", "10de:"],
        "modinfo.txt": ["modinfo", "nvidia"],
        "dev.txt": ["sh", "-c", "ls -la /dev/nvidia* /dev/dri /dev/nvidia-caps 2>&1"],
        "dcgmi-discovery.txt": ["dcgmi", "discovery", "-l"],
        "chronyc.csv": ["chronyc", "-c", "tracking"],
    }
    return found | {
        f"query-{name}.csv": [smi, f"--query-gpu={fields}", csv] for name, fields in MORE_FIELDS.items()
    }


UNDER_LOAD = (
    *("table.txt", "q-x.xml", "query-health.csv", "compute-apps.csv", "compute-apps-mig.csv"),
    *("pmon.txt", "dmon.txt"),
)


def run(command: list[str]) -> tuple[int, str, str, float]:
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=LIMIT_S
        )
        result = done.returncode, done.stdout, done.stderr
    except OSError as error:
        result = 127, "", f"{command[0]}: {error.strerror}\n"
    except subprocess.TimeoutExpired:
        result = 124, "", f"{command[0]} did not end within {LIMIT_S} s\n"
    return *result, time.monotonic() - began


def keep(folder: Path, prefix: str, wanted: dict[str, list[str]]) -> None:
    """Write the output of each command, and what it ended with."""
    table: dict[str, Any] = {}
    for name, command in wanted.items():
        code, out, error, took = run(command)
        (folder / (prefix + name)).write_text(out + error)
        table[name] = {"command": command, "rc": code, "seconds": round(took, 3), "stderr": error[:400]}
    (folder / f"{prefix}commands.json").write_text(json.dumps(table, indent=1) + "\n")


def every_field(folder: Path, prefix: str) -> None:
    """Ask for every field that the help lists, and keep each with its other names."""
    _code, text, _error, _took = run(["nvidia-smi", "--help-query-gpu"])
    lines = [re.findall(r'"([^"\s]+)"', line) for line in text.splitlines() if re.match('"[^ "]', line)]
    (folder / f"{prefix}fields.txt").write_text("".join(" = ".join(names) + "\n" for names in lines))
    names = [each[0] for each in lines]
    _code, out, error, _took = run(["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv"])
    (folder / f"{prefix}query-all.csv").write_text(",".join(names) + f"\n{out}{error}")


def host_files(folder: Path, prefix: str) -> None:
    """Keep the kernel's files as one JSON object, path -> text."""
    found: dict[str, str] = {}
    places = [path for pattern in FILES for path in sorted(Path("/").glob(pattern.lstrip("/")))]
    for device in sorted(Path("/sys/bus/pci/devices").glob("*")):
        places += [device / name for name in PCI]
        if (device / "physfn").exists():
            found[f"{device}/physfn"] = ""
    for path in places:
        try:
            if path.is_file():
                found[str(path)] = path.read_bytes()[:LIMIT_BYTES].decode(errors="replace")
        except OSError as error:
            found[f"{path} ({error.strerror})"] = ""
    (folder / f"{prefix}host_files.json").write_text(json.dumps(found, indent=1) + "\n")


def main(folder: Path, prefix: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = commands()
    if prefix:
        keep(folder, prefix, {name: wanted[name] for name in UNDER_LOAD})
        return
    keep(folder, prefix, wanted)
    every_field(folder, prefix)
    host_files(folder, prefix)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
