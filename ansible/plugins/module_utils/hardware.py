"""Hardware facts that roles read, named as in `ansible.builtin.setup`.

That module queries every mounted file system, which hangs if a file server is gone,
and spends seconds per host on facts that no role reads.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

# Any routed address outside the local network: from TEST-NET-1 (RFC 5737). Nothing is sent to it.
_FAR_AWAY = "192.0.2.1"


def hardware(root: Path = Path("/")) -> dict[str, Any]:
    """Kernel, processors, memory in MiB and the address of the default route."""
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "memtotal_mb": memory_mib(),
        **processors(root / "sys/devices/system/cpu"),
        # Processors available to this host: a container may have fewer.
        "processor_nproc": len(os.sched_getaffinity(0)),
        "default_ipv4": default_address(),
    }


def memory_mib() -> int:
    """Memory of the kernel in whole MiB, as slurmd measures it (get_memory in slurmd/get_mach_stat.c).

    /proc/meminfo of a container may show another figure, and Slurm drains a node that has less memory
    than slurm.conf says.
    """
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024**2


def processors(folder: Path) -> dict[str, int]:
    """Sockets, cores per socket and threads per core of online processors, from sysfs.

    /proc/cpuinfo, which `ansible.builtin.setup` reads, has no sockets on aarch64.
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
    """Address and interface of the default route; empty without one."""
    done = subprocess.run(
        ["ip", "-4", "-j", "route", "get", _FAR_AWAY], capture_output=True, text=True, check=False
    )
    try:
        route = json.loads(done.stdout)[0]
        return {"address": route["prefsrc"], "interface": route["dev"]}
    except (ValueError, LookupError):
        return {}
