"""Slurm as the handler sees it: by its own commands, each for many nodes or jobs at once."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpufleet.notices.events import Kind
from gpufleet.notices.scheduler import DrainedNode, Instance, RunningJob, SchedulerError

REASON = "gpufleet interruption: "
"""How the reason of a drain by this handler starts. Other drains are never taken back."""

ACKNOWLEDGED = "gpufleet:checkpointed:"
"""How a job's comment starts that has written its checkpoint; the time in epoch seconds follows."""

CLOCKS_S = 5
"""How much the clocks of nodes and controller may differ."""

TIMEOUT_S = 30

_GONE = re.compile(r"invalid job id|already complet|already finished", re.IGNORECASE)
_NODES = "NodeList:64,NodeAddr:128,StateComplete:64,Reason:256"
_JOBS = "JobID:16,RestartCnt:16,StateCompact:16,NodeList:8192"
_ANSWERS = "JobID:16,RestartCnt:16,StateCompact:16,Comment:64"
_RUNNING = ("R", "S", "CF", "SI")

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run_command(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of Slurm. Raises SchedulerError if it cannot run or hangs."""
    try:
        return subprocess.run(  # noqa: S603 - no shell; names are arguments
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SchedulerError(f"{command[0]}: {error}") from None


@dataclass
class Slurm:
    """The Slurm of this host. `signal_to` is what `scancel` signals: the batch script, its steps, or both."""

    acknowledgements: Path | None = None
    signal_to: Literal["batch", "steps", "full"] = "batch"
    run: Run = run_command
    _names: dict[str, str] = field(default_factory=dict)

    def nodes(self, instances: Sequence[Instance]) -> Mapping[str, str]:
        """Find nodes by the tag of the instance, else by their address, else by their host name."""
        found = self._found(instances)
        if len(found) < len(instances):
            # A node that was added, or whose address changed since.
            self._names = {}
            for name, address, *_ in self._table("sinfo", "-N", "-O", _NODES):
                self._names |= {name: name, address: name}
            found = self._found(instances)
        return found

    def _found(self, instances: Sequence[Instance]) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in instances:
            # A tag that names no node must not lead to another one by its address.
            keys = [each.node] if each.node else [each.address, each.dns_name.partition(".")[0]]
            for key in keys:
                if key in self._names:
                    found.setdefault(each.id, self._names[key])
        return found

    def drained(self) -> Sequence[DrainedNode]:
        """Return none: the notes are on the controller's disk, which outlives the handler."""
        return []

    def drain(self, nodes: Mapping[str, float | None], kind: Kind) -> Mapping[str, str]:
        """Drain nodes that are not drained. The reason of a drain by others stays."""
        states = self._states(nodes)
        free = [node for node in nodes if not (_is_drained(states.get(node, ("", ""))[0]))]
        return self._update(free, "state=drain", f"reason={REASON}{kind}")

    def release(self, nodes: Collection[str]) -> None:
        """Resume nodes that this handler drained."""
        ours = [
            node for node, (state, reason) in self._states(nodes).items()
            if _is_drained(state) and reason.startswith(REASON)
        ]  # fmt: skip
        failed = self._update(ours, "state=resume")
        if failed:
            raise SchedulerError("; ".join(failed.values()))

    def jobs(self, nodes: Collection[str]) -> Sequence[RunningJob]:
        """Return running and suspended jobs on the nodes."""
        if not nodes:
            return []
        rows = self._table("squeue", "-w", ",".join(nodes), "-t", "R,S,CF", "-O", _JOBS)
        return [RunningJob(job, run, frozenset(expand(names))) for job, run, _, names in rows]

    def signal(self, jobs: Sequence[RunningJob], deadline: float) -> Mapping[str, str]:
        """Send USR1 to whole jobs. A job that has ended since needs none."""
        del deadline
        target = {"batch": ["--batch"], "steps": [], "full": ["--full"]}[self.signal_to]
        return self._each("scancel", ["--signal=USR1", *target], [job.id for job in jobs])

    def acknowledged(self, jobs: Mapping[str, tuple[RunningJob, float]]) -> Mapping[str, str]:
        """Read comments and files: both must be newer than the signal."""
        if not jobs:
            return {}
        rows = {
            job: (run, state, comment)
            for job, run, state, comment in self._table(
                "squeue", "-t", "all", "-j", ",".join(jobs), "-O", _ANSWERS, missing=_GONE
            )
        }
        answers = {}
        for key, (job, signalled) in jobs.items():
            run, state, comment = rows.get(key, ("", "", ""))
            if run != job.run or state not in _RUNNING:
                answers[key] = "finished"
            elif _time_of(comment) >= signalled - CLOCKS_S or self._has_file(key, signalled):
                answers[key] = "acknowledged"
        return answers

    def _has_file(self, job: str, signalled: float) -> bool:
        if self.acknowledgements is None:
            return False
        try:
            return (self.acknowledgements / job).stat().st_mtime >= signalled - CLOCKS_S
        except OSError:
            return False

    def move(self, job: RunningJob, nodes: Collection[str]) -> str:
        """Requeue the run of a job that was signalled, if it still runs."""
        rows = list(self._table("squeue", "-t", "all", "-j", job.id, "-O", _JOBS, missing=_GONE))
        if not any(run == job.run and state in _RUNNING for _, run, state, _ in rows):
            return "finished"
        done = self.run(["scontrol", "requeue", job.id])
        if done.returncode == 0:
            return "requeued"
        if _GONE.search(done.stderr):
            return "finished"
        if "disabled" in done.stderr or "not permitted" in done.stderr.lower():
            # Submitted with --no-requeue.
            return "not requeueable"
        raise SchedulerError(f"scontrol requeue {job.id}: {done.stderr.strip()}")

    def _states(self, nodes: Collection[str]) -> dict[str, tuple[str, str]]:
        if not nodes:
            return {}
        rows = self._table("sinfo", "-N", "-n", ",".join(nodes), "-O", _NODES)
        return {name: (state, reason) for name, _, state, reason in rows}

    def _update(self, nodes: Collection[str], *settings: str) -> dict[str, str]:
        return self._each("scontrol", ["update"], list(nodes), settings, joined="nodename=")

    def _each(
        self,
        program: str,
        options: Sequence[str],
        names: Sequence[str],
        rest: Sequence[str] = (),
        joined: str = "",
    ) -> dict[str, str]:
        """Run one command for all names; if it fails, for halves of them, so that one stops no other."""
        if not names:
            return {}
        listed = [joined + ",".join(names)] if joined else list(names)
        done = self.run([program, *options, *listed, *rest])
        if done.returncode == 0:
            return {}
        if len(names) > 1:
            half = len(names) // 2
            return self._each(program, options, names[:half], rest, joined) | self._each(
                program, options, names[half:], rest, joined
            )
        if _GONE.search(done.stderr):
            return {}
        return {names[0]: f"{program} {names[0]}: {done.stderr.strip()[:200]}"}

    def _table(
        self, program: str, *options: str, missing: re.Pattern[str] | None = None
    ) -> Iterator[list[str]]:
        """Return rows of `sinfo` or `squeue`, whose fields have the widths that were asked for."""
        done = self.run([program, "-h", *options])
        if done.returncode != 0:
            if missing is not None and missing.search(done.stderr):
                return
            raise SchedulerError(f"{program}: {done.stderr.strip()[:500] or done.returncode}")
        widths = [int(each.partition(":")[2]) for each in options[options.index("-O") + 1].split(",")]
        for line in dict.fromkeys(done.stdout.splitlines()):
            if not line.strip():
                continue
            fields, start = [], 0
            for width in widths:
                fields.append(line[start : start + width].strip())
                start += width
            yield fields


def _is_drained(state: str) -> bool:
    return "drain" in state.lower()


def _time_of(comment: str) -> float:
    text = comment.removeprefix(ACKNOWLEDGED) if comment.startswith(ACKNOWLEDGED) else ""
    return float(text) if text.isdecimal() else 0.0


def expand(names: str) -> list[str]:
    """Return the hosts of a list in Slurm's form: `a[1-3,07],b` -> a1, a2, a3, a07, b."""
    found: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", names):
        found += _expand_one(part)
    return found


def _expand_one(part: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [part] if part else []
    inside, _, tail = rest.partition("]")
    found = []
    for piece in inside.split(","):
        low, dash, high = piece.partition("-")
        numbers = range(int(low), int(high) + 1) if dash else [int(low)]
        found += [
            f"{head}{number:0{len(low)}d}{end}" for number in numbers for end in (_expand_one(tail) or [""])
        ]
    return found
