"""sinfo, squeue, scontrol and scancel on a Slurm that is a file, as the handler calls them.

`python fake_slurm.py COMMAND ...` with FAKE_SLURM, the folder of the state. Every change is a line of `log`.
The output has the widths that `-O` asks for, as Slurm's does.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ACKNOWLEDGED = "gpufleet:checkpointed:"


class FakeSlurm:
    """The state below a folder; safe for processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "slurm.json"

    def create(self, nodes: dict[str, str], jobs: dict[str, Sequence[str]] | None = None) -> FakeSlurm:
        """Start with nodes (name -> address) and running jobs (id -> nodes)."""
        self._folder.mkdir(parents=True, exist_ok=True)
        state = {
            "nodes": {
                name: {"address": address, "state": "IDLE", "reason": "none"}
                for name, address in nodes.items()
            },
            "jobs": {
                job: {"nodes": list(names), "run": 0, "state": "R", "comment": "", "requeue": True}
                for job, names in (jobs or {}).items()
            },
        }
        self._file.write_text(json.dumps(state))
        (self._folder / "log").touch()
        return self

    @contextmanager
    def state(self, *, write: bool = True) -> Iterator[dict[str, Any]]:
        """The state, to read and to change."""
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = json.loads(self._file.read_text())
            yield found
            if write:
                new = self._folder / "slurm.json.new"
                new.write_text(json.dumps(found))
                new.replace(self._file)

    def log(self) -> list[list[str]]:
        """What was changed: drain, resume, signal, requeue, each with its name."""
        return [line.split() for line in (self._folder / "log").read_text().splitlines()]

    def logged(self, what: str) -> list[str]:
        """Names of one kind of change, in order."""
        return [name for kind, name in self.log() if kind == what]

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command in this process."""
        status, out, error = self.answer(list(command))
        return subprocess.CompletedProcess(list(command), status, out, error)

    def answer(self, command: list[str]) -> tuple[int, str, str]:
        """Return exit status, output and errors of a command."""
        program, *options = command
        if program == "sinfo":
            return self._sinfo(options)
        if program == "squeue":
            return self._squeue(options)
        if program == "scancel":
            return self._scancel(options)
        return self._update(options) if options[0] == "update" else self._requeue(options[1])

    def _note(self, what: str, names: Sequence[str]) -> None:
        with (self._folder / "log").open("a") as log:
            log.write("".join(f"{what} {name}\n" for name in names))

    def _sinfo(self, options: list[str]) -> tuple[int, str, str]:
        wanted = _option(options, "-n").split(",") if "-n" in options else None
        with self.state(write=False) as state:
            nodes = {name: each for name, each in state["nodes"].items() if wanted is None or name in wanted}
        rows = [[name, each["address"], each["state"], each["reason"]] for name, each in nodes.items()]
        return 0, _table(options, rows), ""

    def _squeue(self, options: list[str]) -> tuple[int, str, str]:
        with self.state(write=False) as state:
            jobs = state["jobs"]
        if "-j" in options:
            wanted = _option(options, "-j").split(",")
            if len(wanted) == 1 and wanted[0] not in jobs:
                return 1, "", "slurm_load_jobs error: Invalid job id specified"
            jobs = {job: each for job, each in jobs.items() if job in wanted}
        if "-w" in options:
            nodes = set(_option(options, "-w").split(","))
            jobs = {job: each for job, each in jobs.items() if nodes & set(each["nodes"])}
        states = _option(options, "-t")
        last = _option(options, "-O").rpartition(",")[2].partition(":")[0]
        rows = [
            [
                job,
                str(each["run"]),
                each["state"],
                each["comment"] if last == "Comment" else ",".join(each["nodes"]),
            ]
            for job, each in jobs.items()
            if states == "all" or each["state"] in states.split(",")
        ]
        return 0, _table(options, rows), ""

    def _scancel(self, options: list[str]) -> tuple[int, str, str]:
        jobs = [each for each in options if not each.startswith("-")]
        with self.state(write=False) as state:
            known = state["jobs"]
        gone = [job for job in jobs if known.get(job, {}).get("state") != "R"]
        if gone:
            return 1, "", f"scancel: error: Kill job error on job id {gone[0]}: Invalid job id specified"
        self._note("signal", jobs)
        return 0, "", ""

    def _update(self, options: list[str]) -> tuple[int, str, str]:
        given = dict(each.split("=", 1) for each in options[1:])
        names = given["nodename"].split(",")
        with self.state() as state:
            unknown = [name for name in names if name not in state["nodes"]]
            if unknown:
                return 1, "", f"slurm_update error: Invalid node name specified ({unknown[0]})"
            for name in names:
                node = state["nodes"][name]
                node["state"] = "IDLE+DRAIN" if given["state"] == "drain" else "IDLE"
                node["reason"] = given.get("reason", "none")
        self._note(given["state"], names)
        return 0, "", ""

    def _requeue(self, job: str) -> tuple[int, str, str]:
        with self.state() as state:
            found = state["jobs"].get(job)
            if found is None:
                return 1, "", "Invalid job id specified"
            if not found["requeue"]:
                return 1, "", "Requested operation is presently disabled for job"
            found |= {"run": found["run"] + 1, "state": "PD", "nodes": []}
        self._note("requeue", [job])
        return 0, "", ""


def _option(options: list[str], name: str) -> str:
    return options[options.index(name) + 1]


def _table(options: list[str], rows: list[list[str]]) -> str:
    widths = [int(each.partition(":")[2]) for each in _option(options, "-O").split(",")]
    return "".join(
        "".join(value[:width].ljust(width) for value, width in zip(row, widths, strict=True)) + "\n"
        for row in rows
    )


def install_commands(folder: Path) -> None:
    """Write the four commands below a folder for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("sinfo", "squeue", "scontrol", "scancel"):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {Path(__file__)} {name} "$@"\n')
        script.chmod(0o755)


if __name__ == "__main__":
    status, out, error = FakeSlurm(Path(os.environ["FAKE_SLURM"])).answer(sys.argv[1:])
    sys.stdout.write(out)
    sys.stderr.write(error)
    sys.exit(status)
