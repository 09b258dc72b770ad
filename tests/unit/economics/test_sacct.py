"""Jobs of Slurm's accounting."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from gpufleet.economics.sacct import COMMAND, read_sacct
from gpufleet.errors import InputError
from tests.captures import find_capture

HEADER = "JobID|JobName|Account|WCKey|State|ElapsedRaw|Start|End|AllocTRES|TRESUsageInAve|TRESUsageInMax\n"
JOB = "7|train|ml|atlas|COMPLETED|7200|2026-03-01T10:00:00|2026-03-01T12:00:00|cpu=8,gres/gpu=4,node=1||\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "sacct.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_job_has_its_gpus_hours_and_owners(tmp_path: Path) -> None:
    (job,) = read_sacct(write(tmp_path, HEADER + JOB), "dc1", "H100")
    assert (job.team, job.project, job.experiment) == ("ml", "atlas", "train")
    assert (job.gpus, job.hours, job.gpu_hours, job.lost) == (4, 2.0, 8.0, False)
    assert job.start == dt.datetime(2026, 3, 1, 10)
    assert job.end == dt.datetime(2026, 3, 1, 12)
    assert job.utilization is None


def test_steps_add_utilization_and_memory_and_no_gpu_hours(tmp_path: Path) -> None:
    steps = (
        "7.extern|extern|ml||COMPLETED|7200|2026-03-01T10:00:00|x|gres/gpu=4|cpu=00:00:01|\n"
        "7.0|train|ml||COMPLETED|7100|2026-03-01T10:00:00|x|gres/gpu=4|cpu=01:00:00,gres/gpuutil=12|"
        "gres/gpumem=9G,gres/gpuutil=88\n"
    )
    (job,) = read_sacct(write(tmp_path, HEADER + JOB + steps), "dc1", "H100")
    assert (job.gpu_hours, job.utilization, job.gpu_memory_gib) == (8.0, 0.12, 9.0)


def test_jobs_without_gpus_are_left_out_and_typed_gpus_are_added(tmp_path: Path) -> None:
    text = (
        HEADER + JOB.replace("gres/gpu=4,", "") + JOB.replace("gres/gpu=4", "gres/gpu:a100=2,gres/gpu:h100=1")
    )
    assert [job.gpus for job in read_sacct(write(tmp_path, text), "dc1", "H100")] == [3]


@pytest.mark.parametrize(
    ("state", "lost"),
    [
        ("COMPLETED", False),
        ("RUNNING", False),
        ("CANCELLED by 1001", True),
        ("TIMEOUT", True),
        ("NODE_FAIL", True),
    ],
)
def test_gpu_hours_of_jobs_that_did_not_succeed_are_lost(tmp_path: Path, state: str, lost: bool) -> None:
    (job,) = read_sacct(write(tmp_path, HEADER + JOB.replace("COMPLETED", state)), "dc1", "H100")
    assert job.lost is lost


def test_each_start_of_a_job_that_was_queued_again_counts(tmp_path: Path) -> None:
    text = HEADER + JOB + JOB.replace("T10:00", "T14:00")
    assert sum(job.gpu_hours for job in read_sacct(write(tmp_path, text), "dc1", "H100")) == 16.0


def test_line_break_in_a_name_does_not_split_a_record(tmp_path: Path) -> None:
    text = HEADER + JOB.replace("train", "two\nlines") + JOB.replace("7|", "8|", 1)
    found = read_sacct(write(tmp_path, text), "dc1", "H100")
    assert [job.experiment for job in found] == ["two\nlines", "train"]


def test_real_output_with_line_breaks_and_bars_is_read() -> None:
    """A capture of a cluster of Meta: `sacct -P --delimiter='|#' --format=ALL`."""
    found = read_sacct(find_capture("slurm/sacct_multiline-jobname.txt"), "dc1", "A100")
    assert [job.gpus for job in found] == [1024, 256]
    assert sum(job.gpu_hours for job in found) == pytest.approx((1024 * 79396 + 256 * 87356) / 3600)
    assert [job.lost for job in found] == [True, False]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no column JobID"),
        ("JobID|State\n", "has no column JobName, Account, ElapsedRaw, Start, AllocTRES"),
        (HEADER + JOB.replace("train", "a|b"), "sacct.txt:2: a record has 12 fields, the header 11"),
        (HEADER + JOB[:40], "sacct.txt:2: the last record has 7 fields of 11"),
        (HEADER + JOB.replace("7200", "02:00:00"), "ElapsedRaw is '02:00:00', not whole seconds"),
    ],
)
def test_file_that_is_not_all_of_the_output_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read_sacct(write(tmp_path, text), "dc1", "H100")
    assert COMMAND in caught.value.remedy or "cut off" in caught.value.remedy
