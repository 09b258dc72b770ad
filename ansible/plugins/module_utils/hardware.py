"""What roles read of a host's hardware, by the names that `ansible.builtin.setup` has for it.

That module asks every mounted file system for its size, which a file server that is gone never answers,
and takes seconds of a host for facts that nobody reads.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

# Any address that is routed and is no neighbour's: of TEST-NET-1 (RFC 5737). Nothing is sent there.
_FAR_AWAY = "192.0.2.1"


def hardware(root: Path = Path("/")) -> dict[str, Any]:
    """Kernel, processors, memory in MiB and the address of the default route."""
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "memtotal_mb": memory_mib((root / "proc/meminfo").read_text()),
        **processors(root / "sys/devices/system/cpu"),
        # What this host may use of them: a container may have fewer.
        "processor_nproc": len(os.sched_getaffinity(0)),
        "default_ipv4": default_address(),
    }


def memory_mib(meminfo: str) -> int:
    """MemTotal of /proc/meminfo, in whole MiB."""
    fields = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    return int(fields["MemTotal"].split()[0]) // 1024


def processors(folder: Path) -> dict[str, int]:
    """Sockets, cores of a socket and threads of a core of the processors that are online, by sysfs.

    /proc/cpuinfo, where `ansible.builtin.setup` counts them, tells of no sockets on aarch64.
    """
    threads = [
        ((topology / "physical_package_id").read_text(), (topology / "thread_siblings_list").read_text())
        for topology in folder.glob("cpu[0-9]*/topology")
    ]
    sockets = len({socket for socket, _ in threads}) or 1
    cores = len({core for _, core in threads}) or 1
    return {
        "processor_count": sockets,
        "processor_cores": cores // sockets or 1,
        "processor_threads_per_core": len(threads) // cores or 1,
    }


def default_address() -> dict[str, str]:
    """Address and interface from which the host talks to others; empty without a default route."""
    done = subprocess.run(
        ["ip", "-4", "-j", "route", "get", _FAR_AWAY], capture_output=True, text=True, check=False
    )
    try:
        route = json.loads(done.stdout)[0]
        return {"address": route["prefsrc"], "interface": route["dev"]}
    except (ValueError, LookupError):
        return {}
