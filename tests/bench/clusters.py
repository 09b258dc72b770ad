"""From bare hosts to a pod with eight GPUs: three control plane members and two nodes on a rack in a box.

The rack's caches are warm. The goal is four minutes on two processors, which the hosts share with Ansible.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.table import Table

from gpufleet.lab.rack import missing
from tests.rack.kubernetes.cluster import Cluster, pod_of

GOAL_S = 240.0


def table() -> Table | None:
    """Seconds of each step, and their sum beside the goal; None if this machine cannot run racks."""
    if missing():
        return None
    made = Table("step", "seconds", "of the goal", title="Kubernetes from bare hosts")
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
        cluster = Cluster.start(Path(folder))
        try:
            total = 0.0
            for step, seconds in _steps(cluster):
                total += seconds
                made.add_row(step, f"{seconds:.1f}", f"{seconds / GOAL_S:.0%}")
            made.add_row("together", f"{total:.1f}", f"{total / GOAL_S:.0%}")
        finally:
            cluster.site.lab.down()
    return made


def _steps(cluster: Cluster) -> list[tuple[str, float]]:
    eight = pod_of("eight", "ls /dev", "research", resources={"limits": {"nvidia.com/gpu": "8"}})
    steps: dict[str, Callable[[], object]] = {
        "gpufleet configure, all roles": cluster.site.configure,
        "NVIDIA's device plugin, by helm": cluster.install_device_plugin,
        "a pod with eight GPUs runs to its end": lambda: cluster.run_pod(eight),
    }
    found = []
    for step, action in steps.items():
        started = time.monotonic()
        action()
        found.append((step, time.monotonic() - started))
    return found
