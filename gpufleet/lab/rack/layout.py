"""The files of a rack: its record, the writable layers of its hosts, keys and sockets."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec

from gpufleet.files import folder_identity, write_atomically
from gpufleet.lab.rack.model import RackSite

# Seven hosts boot at once: in seconds, or in minutes on a busy machine with slow processors.
BOOT_S = 600.0


class Layout(msgspec.Struct, frozen=True):
    """The files of one rack, all in `root`."""

    root: Path

    @property
    def record(self) -> Path:
        """Return the rack's record, written before anything else is created."""
        return self.root / "rack.json"

    @property
    def lock(self) -> Path:
        """Return the lock file of start and removal; it is outside the folder that they create."""
        return self.root.with_name(f".{self.root.name}.lock")

    @property
    def pid(self) -> Path:
        """Return the file with the process id that owns the rack's namespaces."""
        return self.root / "pid"

    @property
    def log(self) -> Path:
        """Return the log of the supervisor."""
        return self.root / "supervisor.log"

    def host(self, name: str) -> Path:
        """Return the folder of one host: layers, mount point, console."""
        return self.root / "hosts" / name

    def console(self, name: str) -> Path:
        """Return the host's console output during boot."""
        return self.host(name) / "console.log"

    def hardware(self, name: str) -> Path:
        """Return the host's /srv/hardware: a kit's description of its hardware."""
        return self.root / "hardware" / name

    @property
    def shared(self) -> Path:
        """Return the hosts' common /srv/shared: the disks of the rack's file servers."""
        return self.root / "shared"

    def sealed(self, name: str) -> Path:
        """Return the copy of `shared` at the time when all hosts were sealed under `name`."""
        return self.root / "sealed" / name


class Record(msgspec.Struct, frozen=True):
    """What is needed to find and remove a rack. Paths are absolute.

    `lower` are the read-only layers of the root file system, the topmost first. `runtime` is a folder with a
    short path, since sockets in long ones cannot be bound. `cgroups` are the control groups of all processes
    of the rack. `folder` is the identity of the layout's folder.
    """

    id: str
    site: RackSite
    lower: tuple[str, ...]
    repository: str
    runtime: str
    cgroups: tuple[str, ...]
    folder: str = ""

    def belongs_to(self, layout: Layout) -> bool:
        """Return whether it belongs to this folder: a copied checkout has a copied record of another rack."""
        return self.folder in ("", folder_identity(layout.root))

    @property
    def socket(self) -> Path:
        """Return the supervisor's socket for requests."""
        return Path(self.runtime) / "control"

    @property
    def ssh_config(self) -> Path:
        """Return the ssh configuration for the hosts."""
        return Path(self.runtime) / "ssh_config"

    @property
    def control_paths(self) -> Path:
        """Return the folder of Ansible's connection sockets for this rack only."""
        return Path(self.runtime) / "cp"

    def write(self, path: Path) -> None:
        """Write the record."""
        write_atomically(path, msgspec.json.encode(self).decode() + "\n", mode=0o600)

    @classmethod
    def read(cls, path: Path) -> Record | None:
        """Return the record in `path`; None without one. A record is written whole or not at all."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return None


def supervisor_pid(layout: Layout, record: Record, *arguments: str) -> int | None:
    """Return the process id of the rack's supervisor as seen from outside, if it is running.

    With `arguments`, only one that was started with them.
    """
    try:
        pid = int(layout.pid.read_text(encoding="utf-8"))
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    # Process ids are used again, so the supervisor's arguments have the random id of the rack.
    return pid if {record.id.encode(), *map(os.fsencode, arguments)} <= set(words) else None


def kill(pid: int) -> None:
    """Send SIGKILL to a process, which may have ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
