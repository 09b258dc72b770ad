"""Which process is the server of a folder: the runtime file and the proof that it still holds.

A process id alone proves nothing, since ids are used again: the runtime file also keeps when the
process started, in the operating system's own terms.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from gpufleet.files import folder_identity, put


@dataclass(frozen=True)
class Files:
    """The files of one sandbox, all in `root`."""

    root: Path

    @property
    def identity(self) -> str:
        """The folder itself, whatever its path: a copy has another. Empty without the folder."""
        return folder_identity(self.root)

    @property
    def runtime(self) -> Path:
        """Process, port and start time of the running server."""
        return self.root / "server.json"

    @property
    def lock(self) -> Path:
        """Held while a server is being started, stopped or reset."""
        return self.root / "server.lock"

    @property
    def port(self) -> Path:
        """The port of the last server: the next one takes it again, so that addresses stay."""
        return self.root / "port"

    @property
    def snapshot(self) -> Path:
        """The state of the emulated account."""
        return self.root / "state.pickle"

    @property
    def manifests(self) -> Path:
        """The objects of the emulated clusters."""
        return self.root / "manifests"

    @property
    def faults(self) -> Path:
        """The faults that were asked for; none without the file."""
        return self.root / "faults.json"

    @property
    def log(self) -> Path:
        """Whatever the server writes to its standard error."""
        return self.root / "server.log"


@dataclass(frozen=True)
class Runtime:
    """A running server. `started` is the operating system's start time of the process, `code` the
    `code_stamp` of what it runs, `folder` the path and `identity` the identity of the folder it serves."""

    pid: int
    port: int
    started: str
    code: str = ""
    folder: str = ""
    identity: str = ""

    @classmethod
    def of(cls, files: Files) -> Runtime | None:
        """The running server of these files, and no other: a copied checkout has a copied runtime file."""
        found = cls.read(files.runtime)
        return found if found and found.identity == files.identity and found.alive else None

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        return bool(self.started) and process_start(self.pid) == self.started

    def write(self, path: Path) -> None:
        """Publish this server."""
        put(path, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, path: Path) -> Runtime | None:
        """The server that `path` names; None without the file or with one that is no runtime file."""
        try:
            document = json.loads(path.read_bytes())
            pid, port = int(document["pid"]), int(document["port"])
            rest = (str(document.get(name, "")) for name in ("code", "folder", "identity"))
            return cls(pid, port, str(document["started"]), *rest)
        except (OSError, ValueError, KeyError, TypeError):
            return None


def code_stamp() -> str:
    """Changes whenever a file of the sandbox's server or backends does.

    A server that outlives an upgrade would go on with the old code; by this stamp it is known.
    """
    sandbox = Path(__file__).parent.parent
    files = sorted(
        file for folder in ("server", "backends", "faults") for file in (sandbox / folder).glob("*.py")
    )
    facts = [(file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def process_start(pid: int) -> str:
    """When a process started, as the operating system prints it; empty when there is none (or a zombie)."""
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
