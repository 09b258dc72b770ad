"""Jobs of Slurm's accounting: files of `sacct --allusers --parsable2 --format=ALL`, or of the columns below.

A job name or comment may have a line break, and sacct does not escape it: a record goes on until it has as
many fields as the header. It may also have the delimiter; such a record is refused, with the option of sacct
that avoids it. Source of the columns: sacct(1) of Slurm 22.05 to 25.05.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.economics.usage import SUCCESSFUL, JobUse
from gpufleet.errors import InputError

REQUIRED = ("JobID", "JobName", "Account", "State", "ElapsedRaw", "Start", "AllocTRES")
COMMAND = (
    "sacct --allusers --parsable2 --delimiter='|#' --starttime=2026-01-01"
    " --format=JobID,JobName,Account,WCKey,State,ElapsedRaw,Start,End,AllocTRES,TRESUsageInAve,TRESUsageInMax"
)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_UTILIZATION = "gres/gpuutil"
_MEMORY = "gres/gpumem"


class _Step(Struct, frozen=True):
    utilization: float | None
    memory_gib: float | None


def read_sacct(path: Path, site: str, gpu: str) -> list[JobUse]:
    """Return the jobs with GPUs. Raises InputError for missing columns and for records that do not fit them.

    Steps (`123.batch`) add the utilization and memory of GPUs where Slurm gathers them
    (`AccountingStorageTRES=gres/gpuutil,gres/gpumem`); their GPUs are those of their job.
    """
    jobs: dict[str, JobUse] = {}
    steps: dict[str, list[_Step]] = {}
    for line, row in _records(path):
        job, _, step = row["JobID"].partition(".")
        if step:
            steps.setdefault(job, []).append(_step(row, path, line))
            continue
        found = _job(row, site, gpu, path, line)
        if found is not None:
            # A job that was queued again has a record for each start.
            jobs[f"{job} {row['Start']}"] = found
    return [_measured(job, steps.get(job.id, ())) for job in jobs.values()]


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", remedy="check the path") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8", remedy=f"write it with: {COMMAND}") from None
    header, _, rest = text.partition("\n")
    delimiter = "|#" if "|#" in header else "|"
    names = header.rstrip("\r").split(delimiter)
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise InputError(
            f"{path} has no column {', '.join(missing)}: it is not the output of sacct, or not all of it",
            remedy=f"write it with: {COMMAND}",
        )
    kept, first = "", 0
    for number, line in enumerate(rest.splitlines(), start=2):
        if not kept and not line.strip():
            continue
        first = first if kept else number
        kept = f"{kept}\n{line}" if kept else line
        fields = kept.split(delimiter)
        if len(fields) > len(names):
            raise InputError(
                f"{path}:{first}: a record has {len(fields)} fields, the header {len(names)}:"
                f" a job name or comment has '{delimiter}' in it",
                remedy=f"write it with another delimiter: {COMMAND}",
            )
        if len(fields) == len(names):
            yield first, dict(zip(names, fields, strict=True))
            kept = ""
    if kept:
        raise InputError(
            f"{path}:{first}: the last record has {len(kept.split(delimiter))} fields of {len(names)}",
            remedy="the file is cut off: write it again",
        )


def _job(row: Mapping[str, str], site: str, gpu: str, path: Path, line: int) -> JobUse | None:
    gpus = _gpus(row["AllocTRES"])
    if not gpus:
        return None
    if not row["ElapsedRaw"].isdigit():
        raise InputError(
            f"{path}:{line}: ElapsedRaw is '{row['ElapsedRaw'][:30]}', not whole seconds",
            remedy=f"write it with: {COMMAND}",
        )
    state = row["State"].partition(" ")[0]
    start = row["Start"]
    try:
        moment = dt.datetime.fromisoformat(start)
    except ValueError:
        moment = None
    return JobUse(
        id=row["JobID"],
        name=row["JobName"],
        team=row["Account"],
        project=row.get("WCKey", "").lstrip("*"),
        experiment=row["JobName"],
        site=site,
        gpu=gpu,
        gpus=gpus,
        hours=int(row["ElapsedRaw"]) / 3600,
        lost=state not in SUCCESSFUL,
        start=moment,
    )


def _gpus(tres: str) -> int:
    """Return the GPUs of AllocTRES: `gres/gpu=8`, or the sum of `gres/gpu:a100=4`."""
    found = dict(part.partition("=")[::2] for part in tres.split(",") if part)
    if found.get("gres/gpu", "").isdigit():
        return int(found["gres/gpu"])
    typed = (int(count) for name, count in found.items() if name.startswith("gres/gpu:") and count.isdigit())
    return sum(typed)


def _step(row: Mapping[str, str], path: Path, line: int) -> _Step:
    average = _tres(row.get("TRESUsageInAve", ""), path, line)
    most = _tres(row.get("TRESUsageInMax", ""), path, line)
    used, memory = average.get(_UTILIZATION), most.get(_MEMORY)
    return _Step(None if used is None else min(used / 100, 1.0), None if memory is None else memory / 2**30)


def _tres(text: str, path: Path, line: int) -> dict[str, float]:
    """Return the values of the GPU's resources; others have formats of their own (`cpu=18:21:26`)."""
    found = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in (_UTILIZATION, _MEMORY):
            continue
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGT]?)", value)
        if match is None:
            raise InputError(f"{path}:{line}: '{part}' is not a number", remedy=f"write it with: {COMMAND}")
        found[name] = float(match[1]) * _UNITS[match[2]]
    return found


def _measured(job: JobUse, steps: list[_Step] | tuple[()]) -> JobUse:
    """Return the job with the highest values of its steps: those without GPU work (`.extern`) have none."""
    used = [step.utilization for step in steps if step.utilization is not None]
    memory = [step.memory_gib for step in steps if step.memory_gib is not None]
    return replace(job, utilization=max(used, default=None), gpu_memory_gib=max(memory, default=None))
