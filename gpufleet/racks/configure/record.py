"""Records of a run: the journal, and `last.json`, from which the next run resumes.

Everything is below `.gpufleet/configure/<env>/`, and of operations below
`.gpufleet/operate/<env>/<operation>/`, readable by its owner only. `last.json` is written
before the first task and after the last one, whole each time. In between the journal grows by a
line for each task, so that a run that is killed is known as far as it came.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from gpufleet.errors import InputError, RefusedError
from gpufleet.files import write_atomically
from gpufleet.racks.configure.redact import Redactor
from gpufleet.racks.events import TaskEvent, is_done

HostState = Literal["pending", "done", "failed", "unreachable"]
"""`pending`: the run ended before it was through with the host."""

_OWNER_ONLY = 0o600
_KEPT_RUNS = 20


class LastRun(Struct, frozen=True):
    """The last run that did more than look. `complete` is False for one that was cut short.

    `only` are the roles that it was limited to, `options` those of an operation. `token` marks its
    processes, see `stragglers`. `first` is the run that began an operation which this one has resumed.
    """

    run: str
    complete: bool
    hosts: Mapping[str, HostState]
    only: tuple[str, ...] = ()
    token: str = ""
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    first: str = ""

    @property
    def left(self) -> tuple[str, ...]:
        """The hosts that a resumed run has to visit."""
        return tuple(name for name, state in self.hosts.items() if state != "done")


class RunFolder:
    """The folder of one environment's runs; with `operation`, of that operation's runs there."""

    def __init__(self, local: Path, environment: str, operation: str = "") -> None:
        self.path = (
            local / "operate" / environment / operation if operation else local / "configure" / environment
        )
        self.last_file = self.path / "last.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Allow one run at a time. The lock is released when its process ends.

        Raises RefusedError while another run of the environment is running.
        """
        self._make()
        with (self.path / "lock").open("a", encoding="utf-8") as lock:
            (self.path / "lock").chmod(_OWNER_ONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RefusedError(
                    f"another run on the hosts of {self.path.name} is in progress",
                    remedy="wait for it; two at once would undo each other",
                ) from None
            yield

    def last(self) -> LastRun | None:
        """Return the last run, completed from its journal if it was cut short, None if there is none."""
        if not self.last_file.is_file():
            return None
        try:
            data = json.loads(self.last_file.read_text(encoding="utf-8"))
            last = LastRun(
                run=str(data["run"]),
                complete=bool(data["complete"]),
                hosts=dict(data["hosts"]),
                only=tuple(data.get("only") or ()),
                token=str(data.get("token") or ""),
                options=dict(data.get("options") or {}),
                first=str(data.get("first") or ""),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{self.last_file} cannot be read", remedy="remove it, and run without --resume"
            ) from None
        if last.complete:
            return last
        return replace(last, hosts=self._from_journal(last))

    def save(self, last: LastRun) -> None:
        """Write the last run, whole or not at all."""
        document = asdict(last) | {"hosts": dict(last.hosts), "only": list(last.only)}
        document["options"] = dict(last.options)
        write_atomically(self.last_file, json.dumps(document, indent=1) + "\n", mode=_OWNER_ONLY)

    def journal_file(self, run: str) -> Path:
        """The journal of a run: one JSON object a line."""
        return self.path / "runs" / f"{run}.jsonl"

    def page_file(self, run: str) -> Path:
        """The HTML page of a run."""
        return self.path / "runs" / f"{run}.html"

    def open_journal(self, run: str, redactor: Redactor) -> Journal:
        """A new journal; the oldest runs' files are removed."""
        self._make()
        folder = self.path / "runs"
        runs = sorted({path.stem for path in folder.iterdir()})
        for old in runs[: max(0, len(runs) - _KEPT_RUNS + 1)]:
            for path in folder.glob(f"{old}.*"):
                path.unlink(missing_ok=True)
        handle = os.open(self.journal_file(run), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, _OWNER_ONLY)
        return Journal(os.fdopen(handle, "w", encoding="utf-8"), redactor)

    def _make(self) -> None:
        try:
            (self.path / "runs").mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o700)
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written: {error.strerror}", remedy="work in a checkout of yours"
            ) from None

    def _from_journal(self, last: LastRun) -> dict[str, HostState]:
        """Return the states of hosts from the journal: failed hosts, and hosts that an operation marked as
        done."""
        hosts: dict[str, HostState] = dict(last.hosts)
        try:
            lines = self.journal_file(last.run).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return hosts
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                # The last line of a run that was killed while it wrote.
                continue
            kind = event.get("kind")
            if event.get("host") not in hosts:
                continue
            if kind in ("failed", "unreachable"):
                hosts[event["host"]] = kind
            elif event.get("done"):
                hosts[event["host"]] = "done"
        return hosts


class Journal:
    """The journal of one run: every task of every host as it ends, without secrets."""

    def __init__(self, file: IO[str], redactor: Redactor) -> None:
        self._file = file
        self._redactor = redactor

    def write(self, event: TaskEvent) -> None:
        """Add one task; it is on its way to the disk when this returns."""
        if event.kind == "started":
            return
        entry: dict[str, Any] = {
            "kind": event.kind,
            "host": event.host,
            "role": event.role,
            "task": event.task,
            "duration_s": round(event.duration_s, 3),
        }
        if is_done(event):
            entry["done"] = True
        if event.message:
            entry["message"] = event.message
        if event.kind == "changed" and event.diffs:
            entry["diffs"] = [asdict(diff) for diff in event.diffs]
        self._file.write(json.dumps(self._redactor.value(entry)) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
