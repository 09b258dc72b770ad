"""Where a rack keeps what: its record, the writable layers of its hosts, keys and sockets."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpufleet.files import folder_identity, write_atomically
from gpufleet.lab.rack.model import RackSite

# A loaded machine takes its time; a host that boots at all is far quicker.
BOOT_S = 120.0


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one rack, all in `root`."""

    root: Path

    @property
    def record(self) -> Path:
        """The rack's record, written before anything else is made."""
        return self.root / "rack.json"

    @property
    def lock(self) -> Path:
        """Lock file of start and removal of the rack; outside the folder, which they create and delete."""
        return self.root.with_name(f".{self.root.name}.lock")

    @property
    def pid(self) -> Path:
        """The process that the rack's namespaces live and die with."""
        return self.root / "pid"

    @property
    def log(self) -> Path:
        """What the supervisor says."""
        return self.root / "supervisor.log"

    def host(self, name: str) -> Path:
        """The folder of one host: layers, mount point, console."""
        return self.root / "hosts" / name

    def console(self, name: str) -> Path:
        """What the host printed while it booted."""
        return self.host(name) / "console.log"

    def hardware(self, name: str) -> Path:
        """What the host sees as /srv/hardware: a kit's description of what is plugged into it."""
        return self.root / "hardware" / name

    @property
    def shared(self) -> Path:
        """What all hosts see as /srv/shared: the disks of the rack's file servers."""
        return self.root / "shared"

    def sealed(self, name: str) -> Path:
        """What `shared` held when a state of all hosts was sealed under `name`."""
        return self.root / "sealed" / name


@dataclass(frozen=True, slots=True)
class Record:
    """What is needed to find a rack again and to remove it. Paths are absolute.

    `lower` are the read-only layers of the root file system, the topmost first. `runtime` is a
    folder with a short path, since sockets in long ones cannot be bound. `cgroups` are the control
    groups in which all processes of the rack are. `folder` is the identity of the layout's folder.
    """

    id: str
    site: RackSite
    lower: tuple[str, ...]
    repository: str
    runtime: str
    cgroups: tuple[str, ...]
    folder: str = ""

    def belongs_to(self, layout: Layout) -> bool:
        """Whether it is of this folder: a copied checkout has a copied record, of the other's rack."""
        return self.folder in ("", folder_identity(layout.root))

    @property
    def socket(self) -> Path:
        """Where the supervisor takes requests."""
        return Path(self.runtime) / "control"

    @property
    def ssh_config(self) -> Path:
        """How ssh reaches the hosts."""
        return Path(self.runtime) / "ssh_config"

    @property
    def control_paths(self) -> Path:
        """Where Ansible keeps the sockets of its connections to this rack and no other."""
        return Path(self.runtime) / "cp"

    def write(self, path: Path) -> None:
        """Publish the record."""
        write_atomically(path, json.dumps(asdict(self), indent=1) + "\n", mode=0o600)

    @classmethod
    def read(cls, path: Path) -> Record | None:
        """The record in `path`; None without one. A record is written whole or not at all."""
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        lists = {key: tuple(data[key]) for key in ("lower", "cgroups")}
        return cls(**data | lists | {"site": RackSite.from_dict(data["site"])})


def supervisor_pid(layout: Layout, record: Record, *arguments: str) -> int | None:
    """The process id of the rack's supervisor as seen from outside, if that very one runs.

    With `arguments`, only one that was started with them.
    """
    try:
        pid = int(layout.pid.read_text(encoding="utf-8"))
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    # Process ids are used again; the random id of the rack is in the supervisor's arguments.
    return pid if {record.id.encode(), *map(os.fsencode, arguments)} <= set(words) else None


def kill(pid: int) -> None:
    """SIGKILL to a process that may be gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
