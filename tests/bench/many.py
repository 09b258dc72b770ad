"""Peak memory and open files of all Ansible processes for hundreds of hosts.

The hosts do not exist (tests/bench/connection), so only the controller is measured:
the inventory as `gpufleet inventory` writes it, of a site with monitoring and management, ansible.cfg as it
is, the playbook of every host's base. Requests to management controllers do not involve the nodes:
they are real, to one Redfish service on loopback.

mitogen has its own connections: with an ssh that runs its command here, each host is a Python
that only returns its facts. Those represent remote hosts and are not counted; an ssh client per host would
be additional.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rich.table import Table

from gpufleet.racks.configure.transport import Transport, transport_environment
from gpufleet.racks.runner import PlaybookRun, run_playbook
from tests.rack.lab import FLEET, ROOT, plan_fleet
from tests.redfish_server import PASSWORD, USER, Service

HOSTS = (50, 500)


@dataclass(frozen=True)
class TaskTransport:
    """How tasks reach hosts that do not exist, and what runs there.

    Processes with `hosts` in their command line stand for remote hosts, and are not counted.
    """

    transport: Transport
    playbook: str
    variables: Mapping[str, str]
    hosts: bytes = b""


CONNECTION = Path(__file__).parent / "connection"
WAYS = (
    TaskTransport("ssh", "playbooks/base.yml", {"ansible_connection": "canned"}),
    # The process name of Pythons started by mitogen.
    TaskTransport(
        "mitogen", "playbooks/facts.yml", {"ansible_ssh_executable": str(CONNECTION / "ssh")}, b"(mitogen:"
    ),
    TaskTransport("mitogen", "playbooks/bmc.yml", {}),
)
SECRET = "GPUFLEET_SECRET_BMC_PASSWORD_LAB"
SITE = """\
    bmc: bmc[001-{nodes:03d}]
    management: {{ user: {user}, power_cap: 9 kW, boot_order: [disk, pxe] }}
    monitoring: {{ grafana: false }}
"""


@dataclass
class Peak:
    """Peak of all processes together, and the duration of the run."""

    hosts: int
    way: TaskTransport
    seconds: float
    task_hosts: int
    memory_mib: float
    processes: int
    files: int
    files_of_one: int


def table(sizes: tuple[int, ...] = HOSTS) -> Table:
    """The peaks of all transports."""
    made = Table(
        *("hosts", "playbook", "transport", "s", "task-hosts / s"),
        *("memory, MiB", "processes", "open files", "of one process"),
        title="hosts that do not exist, 50 forks",
    )
    for way, size in product(WAYS, sizes):
        peak = measure(size, way)
        made.add_row(
            str(peak.hosts),
            Path(way.playbook).name,
            way.transport,
            f"{peak.seconds:.0f}",
            f"{peak.task_hosts / peak.seconds:.0f}",
            f"{peak.memory_mib:.0f}",
            str(peak.processes),
            str(peak.files),
            str(peak.files_of_one),
        )
    return made


def measure(hosts: int, way: TaskTransport) -> Peak:
    """One run over this number of hosts."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as name:
        folder = Path(name)
        fleet = folder / "fleet.yaml"
        text = FLEET.read_text().replace("dgx[01-04]", f"dgx[001-{hosts - 3:03d}]")
        text = text.replace("10.90.0.0/24", "10.90.0.0/22")
        slurm = "    scheduler: slurm\n"
        fleet.write_text(text.replace(slurm, slurm + SITE.format(nodes=hosts - 3, user=USER)))
        _, inventory = plan_fleet(fleet)
        (folder / "inventory.yml").write_text(inventory)
        controllers = Service(folder)
        with closing(controllers), ResourceMonitor(way.hosts) as watched:
            result = run_playbook(
                PlaybookRun(
                    project=ROOT / "ansible",
                    playbook=way.playbook,
                    inventory=folder / "inventory.yml",
                    secrets={SECRET: PASSWORD},
                    variables={
                        "bmc_address": "127.0.0.1",
                        "bmc_port": controllers.port,
                        "bmc_ca": str(folder / "bmc.crt"),
                        **way.variables,
                    },
                    environment=transport_environment(way.transport)
                    | {
                        "ANSIBLE_CONNECTION_PLUGINS": str(CONNECTION),
                        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder / "facts"),
                    },
                )
            )
    if result.failures:
        first = result.failures[0]
        raise RuntimeError(f"{first.host}: {first.task}: {first.message}")
    done = sum(stats.ok for stats in result.hosts.values())
    held = (watched.memory_mib, watched.processes, *watched.files)
    return Peak(len(result.hosts), way, result.duration_s, done, *held)


class ResourceMonitor:
    """Sum memory (proportional, so that shared pages count once) and open files of child processes."""

    def __init__(self, apart: bytes) -> None:
        self._apart = apart
        self.memory_mib = 0.0
        self.processes = 0
        self.files = (0, 0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> ResourceMonitor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.5):
            memory, files = 0.0, []
            for pid in descendants(os.getpid()):
                if self._apart and self._apart in command_line(pid):
                    continue
                memory += proportional_mib(pid)
                files.append(open_files(pid))
            self.memory_mib = max(self.memory_mib, memory)
            self.processes = max(self.processes, len(files))
            if files:
                self.files = (max(self.files[0], sum(files)), max(self.files[1], max(files)))


def descendants(root: int) -> list[int]:
    """All descendants of a process."""
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(process.name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def command_line(pid: int) -> bytes:
    """Arguments of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def proportional_mib(pid: int) -> float:
    """Proportional memory (PSS) of a process in MiB; 0 if it has ended."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def open_files(pid: int) -> int:
    """Number of open files of a process; 0 if it has ended."""
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0
