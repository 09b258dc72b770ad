"""The server process of a folder: its runtime file, and the check that it is still valid.

A process id is not sufficient, since ids are used again: the runtime file also has the start time of the
process, as the operating system reports it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import msgspec

from gpufleet.files import folder_identity, put


class Files(msgspec.Struct, frozen=True):
    """The files of one sandbox, all in `root`."""

    root: Path

    @property
    def identity(self) -> str:
        """Return the identity of the folder, whatever its path: a copy has another. Empty without it."""
        return folder_identity(self.root)

    @property
    def runtime(self) -> Path:
        """Return the file with process, port and start time of the running server."""
        return self.root / "server.json"

    @property
    def lock(self) -> Path:
        """Return the lock file, held while a server is started, stopped or reset."""
        return self.root / "server.lock"

    @property
    def port(self) -> Path:
        """Return the file with the port of the last server: the next one uses it again."""
        return self.root / "port"

    @property
    def snapshot(self) -> Path:
        """Return the file with the state of the emulated account."""
        return self.root / "state.pickle"

    @property
    def manifests(self) -> Path:
        """Return the folder with the objects of the emulated clusters."""
        return self.root / "manifests"

    @property
    def faults(self) -> Path:
        """Return the file with the injected faults; without it there are none."""
        return self.root / "faults.json"

    @property
    def log(self) -> Path:
        """Return the file with the server's standard error."""
        return self.root / "server.log"


class Runtime(msgspec.Struct, frozen=True):
    """A running server. `started` is the operating system's start time of the process, `code` the
    `code_stamp` of its code, `folder` the path and `identity` the identity of its folder."""

    pid: int
    port: int
    started: str
    code: str = ""
    folder: str = ""
    identity: str = ""

    @classmethod
    def of(cls, files: Files) -> Runtime | None:
        """Return the running server of these files only: a copied checkout has a copied runtime file."""
        found = cls.read(files.runtime)
        return found if found and found.identity == files.identity and found.alive else None

    @property
    def alive(self) -> bool:
        """Return whether that process is still running."""
        return bool(self.started) and process_start(self.pid) == self.started

    def write(self, path: Path) -> None:
        """Write the runtime file of this server."""
        put(path, msgspec.json.encode(self))

    @classmethod
    def read(cls, path: Path) -> Runtime | None:
        """Return the server in `path`; None without the file or with an invalid one."""
        try:
            document = json.loads(path.read_bytes())
            pid, port = int(document["pid"]), int(document["port"])
            rest = (str(document.get(name, "")) for name in ("code", "folder", "identity"))
            return cls(pid, port, str(document["started"]), *rest)
        except (OSError, ValueError, KeyError, TypeError):
            return None


def code_stamp() -> str:
    """Return a stamp that changes with every file of the sandbox's server or backends.

    It detects a server that still runs old code after an upgrade.
    """
    sandbox = Path(__file__).parent.parent
    files = sorted(
        file for folder in ("server", "backends", "faults") for file in (sandbox / folder).glob("*.py")
    )
    facts = [(file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def process_start(pid: int) -> str:
    """Return when a process started, as the operating system prints it; empty if it ended."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] in "ZX" else fields[19]
    result = subprocess.run(  # noqa: S603 - fixed program, number as argument
        ["/bin/ps", "-o", "lstart=", "-p", str(int(pid))], capture_output=True, text=True, check=False
    )
    return result.stdout.strip()
