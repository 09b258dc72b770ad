"""What Ansible holds for hundreds of hosts: memory and open files of all its processes, at their highest.

The hosts do not exist (tests/bench/connection), so that what is measured is the controller's part alone:
the inventory as `gpufleet inventory` writes it, ansible.cfg as it is, the playbook of every host's base.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from gpufleet.onprem.runner import PlaybookRun, run_playbook
from tests.rack.lab import FLEET, ROOT, plan_fleet

HOSTS = (50, 500)
PLAYBOOK = "playbooks/base.yml"


@dataclass
class Peak:
    """The highest seen of all processes together, and how long the run took."""

    hosts: int
    seconds: float
    task_hosts: int
    memory_mib: float
    processes: int
    files: int
    files_of_one: int


def table(sizes: tuple[int, ...] = HOSTS) -> Table:
    """The peaks side by side."""
    made = Table(
        *("hosts", "s", "task-hosts / s", "memory, MiB", "processes", "open files", "of one process"),
        title="base.yml for hosts that do not exist, 50 forks",
    )
    for size in sizes:
        peak = measure(size)
        made.add_row(
            str(peak.hosts),
            f"{peak.seconds:.0f}",
            f"{peak.task_hosts / peak.seconds:.0f}",
            f"{peak.memory_mib:.0f}",
            str(peak.processes),
            str(peak.files),
            str(peak.files_of_one),
        )
    return made


def measure(hosts: int) -> Peak:
    """One run over so many hosts."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as name:
        folder = Path(name)
        fleet = folder / "fleet.yaml"
        text = FLEET.read_text().replace("dgx[01-04]", f"dgx[001-{hosts - 3:03d}]")
        fleet.write_text(text.replace("10.90.0.0/24", "10.90.0.0/22"))
        _, inventory = plan_fleet(fleet)
        (folder / "inventory.yml").write_text(inventory)
        with Watched() as watched:
            result = run_playbook(
                PlaybookRun(
                    project=ROOT / "ansible",
                    playbook=PLAYBOOK,
                    inventory=folder / "inventory.yml",
                    variables={"ansible_connection": "canned"},
                    environment={
                        "ANSIBLE_CONNECTION_PLUGINS": str(Path(__file__).parent / "connection"),
                        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder / "facts"),
                    },
                )
            )
    if result.failures:
        first = result.failures[0]
        raise RuntimeError(f"{first.host}: {first.task}: {first.message}")
    done = sum(stats.ok for stats in result.hosts.values())
    return Peak(
        len(result.hosts), result.duration_s, done, watched.memory_mib, watched.processes, *watched.files
    )


class Watched:
    """Adds up memory (proportional, so that shared pages count once) and open files of our children."""

    def __init__(self) -> None:
        self.memory_mib = 0.0
        self.processes = 0
        self.files = (0, 0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.5):
            memory, files = 0.0, []
            for pid in descendants(os.getpid()):
                memory += proportional_mib(pid)
                files.append(open_files(pid))
            self.memory_mib = max(self.memory_mib, memory)
            self.processes = max(self.processes, len(files))
            if files:
                self.files = (max(self.files[0], sum(files)), max(self.files[1], max(files)))


def descendants(root: int) -> list[int]:
    """All processes below one."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def proportional_mib(pid: int) -> float:
    """A process's share of memory (PSS) in MiB; 0 for one that is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def open_files(pid: int) -> int:
    """How many files a process has open; 0 for one that is gone."""
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0
