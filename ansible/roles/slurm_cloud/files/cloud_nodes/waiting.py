"""Jobs of the whole cluster that wait or run, what they need, and what cloud jobs used this month."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from cloud_nodes.slurm import Run, run_command

MARK = "gpufleet burst: "
"""How the administrator comment of a job starts that the rules of bursts have decided about."""

GOES = "cloud"
"""The rule of jobs that may use cloud nodes, after `MARK`."""

STAYS = "gpufleet:stay"
"""How a user's comment starts on a job that must not leave the racks."""

WAITS, STARTS = "PD", "CF"
"""States of jobs that wait for nodes, and of those whose nodes start."""

_FIELDS = (
    ("JobArrayID", 48),
    ("StateCompact", 8),
    ("Account", 64),
    ("Partition", 256),
    ("Reason", 64),
    ("EligibleTime", 32),
    ("StartTime", 32),
    ("EndTime", 32),
    ("Deadline", 32),
    ("TimeLimit", 32),
    ("NumNodes", 16),
    ("tres-alloc", 256),
    ("tres-per-node", 128),
    ("tres-per-job", 128),
    ("tres-per-task", 128),
    ("tres-per-socket", 128),
    ("Feature", 64),
    ("Reservation", 64),
    ("ReqNodes", 64),
    ("HetJobID", 32),
    ("Comment", 64),
    ("admin_comment", 256),
)
_NONE = frozenset({"", "N/A", "(null)", "Unknown", "NONE"})
_BOUND = {"Feature": "a constraint", "Reservation": "a reservation", "ReqNodes": "a list of nodes"}
_UNLIMITED = frozenset({"UNLIMITED", "INVALID", "NOT_SET", "Partition_Limit"})


@dataclass(frozen=True)
class QueuedJob:
    """A job, or a task of a job array. Times are in epoch seconds; None where Slurm knows none.

    `cpus`, `memory_mib` and `gpus` are those of all its nodes. `expected` is when Slurm's backfill expects it
    to start, `ends` when a running one ends at the latest. `added` are the partitions that an earlier
    decision gave it. `note` is its administrator comment, `state` Slurm's short one.
    """

    id: str
    account: str
    partitions: tuple[str, ...]
    reason: str
    eligible: float
    expected: float | None
    ends: float | None
    deadline: float | None
    limit_s: float | None
    nodes: int
    cpus: int
    memory_mib: int
    gpus: int
    gpu_types: frozenset[str]
    bound_by: str
    comment: str
    note: str
    state: str
    added: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        """Whether it has nodes, which may still start."""
        return self.state != WAITS


@dataclass(frozen=True)
class NodeUse:
    """A part of a job that ran this month, on whole nodes of one partition."""

    partition: str
    nodes: int
    seconds: float


class Queue:
    """Slurm's queue, by its commands."""

    def __init__(self, run: Run = run_command) -> None:
        self._run = run

    def jobs(self, cloud: Collection[str]) -> list[QueuedJob]:
        """Return waiting and running jobs in the order of their priority. `cloud` are cloud partitions."""
        spec = ",".join(f"{name}:{width}" for name, width in _FIELDS)
        words = ["env", "SLURM_TIME_FORMAT=%s", "squeue", "--all", "--array", "--noheader"]
        output = self._run([*words, "--states=PD,CF,R,S", "--sort=-p,i", "-O", spec])
        return [_job(dict(_split(line)), cloud) for line in output.splitlines() if line.strip()]

    def used(self, partitions: Sequence[str], since: float) -> list[NodeUse]:
        """Return what ran in the partitions since that time, requeued attempts too."""
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since))
        words = ["env", "TZ=UTC", "sacct", "--allusers", "--allocations", "--duplicates", "--truncate"]
        words += ["--noheader", "--parsable2", f"--partition={','.join(partitions)}"]
        words += [f"--starttime={start}", "--format=Partition,NNodes,ElapsedRaw"]
        output = self._run(words)
        found = [line.split("|") for line in output.splitlines() if line.strip()]
        return [
            NodeUse(partition, int(nodes), float(seconds))
            for partition, nodes, seconds in found
            if partition in partitions and seconds.isdecimal() and int(seconds)
        ]

    def move(self, job: str, partitions: Sequence[str], note: str | None) -> None:
        """Give a job its partitions, and an administrator comment unless None."""
        words = ["scontrol", "update", f"jobid={job}", f"partition={','.join(partitions)}"]
        self._run(words if note is None else [*words, f"admincomment={note}"])

    def note(self, job: str, note: str) -> None:
        """Give a job an administrator comment."""
        self._run(["scontrol", "update", f"jobid={job}", f"admincomment={note}"])


def _split(line: str) -> Iterator[tuple[str, str]]:
    start = 0
    for name, width in _FIELDS:
        yield name, line[start : start + width].strip()
        start += width


def _job(given: dict[str, str], cloud: Collection[str]) -> QueuedJob:
    running = given["StateCompact"] != WAITS
    partitions = tuple(given["Partition"].split(","))
    note = _text(given["admin_comment"])
    tres = dict(re.findall(r"([a-z/]+)=([^,]+)", given["tres-alloc"]))
    asked = " ".join(given[f"tres-per-{each}"] for each in ("node", "job", "task", "socket"))
    ours = note.startswith(f"{MARK}{GOES}: ")
    bound = [words for name, words in _BOUND.items() if _text(given[name])]
    # Slurm prints 0 for a job that is no part of a heterogeneous one, or N/A.
    if _text(given["HetJobID"]) not in ("", "0"):
        bound.append("the other parts of its heterogeneous job")
    return QueuedJob(
        id=given["JobArrayID"],
        account=_text(given["Account"]),
        partitions=partitions,
        reason=_text(given["Reason"]),
        eligible=_time(given["EligibleTime"]) or float("inf"),
        expected=None if running else _time(given["StartTime"]),
        ends=_time(given["EndTime"]) if running else None,
        deadline=_time(given["Deadline"]),
        limit_s=_seconds(given["TimeLimit"]),
        nodes=int(given["NumNodes"].partition("-")[0] or 1),
        cpus=int(tres.get("cpu", 0)),
        memory_mib=_mebibytes(tres.get("mem", "0M")),
        gpus=int(tres.get("gres/gpu", 0)),
        gpu_types=frozenset(re.findall(r"\bgpu:([a-z][\w.-]*)", asked)),
        bound_by=" and ".join(bound),
        comment=_text(given["Comment"]),
        note=note,
        state=given["StateCompact"],
        added=tuple(each for each in partitions if each in cloud) if ours and not running else (),
    )


def _text(value: str) -> str:
    return "" if value in _NONE else value


def _time(value: str) -> float | None:
    return float(value) if value.isdecimal() and int(value) else None


def _seconds(value: str) -> float | None:
    """`days-hours:minutes:seconds`, without what is 0 at the left; None if it is unlimited."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", value)
    if value in _UNLIMITED or found is None:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _mebibytes(value: str) -> int:
    found = re.fullmatch(r"([\d.]+)([KMGTP]?)", value)
    if found is None:
        return 0
    return int(float(found[1]) * 1024 ** ("KMGTP".index(found[2] or "M") - 1))
