"""Allocation, unusual days, advice, sites."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpufleet.catalog import load_catalog
from gpufleet.economics.pods import read_pods
from gpufleet.economics.rightsizing import advise
from gpufleet.economics.usage import JobUse, UsageReport, allocate, by_team, find_anomalies
from gpufleet.economics.usage_json import usage_to_csv
from gpufleet.errors import InputError

CATALOG = load_catalog()
START = dt.datetime(2026, 3, 1)
JOB = JobUse("1", "train", "ml", "atlas", "run", "dc1", "A100", 8, 2.0, False, START)


def test_gpu_hours_and_cost_are_allocated_and_lost_and_unused_ones_shown() -> None:
    jobs = [JOB, replace(JOB, utilization=0.25), replace(JOB, lost=True), replace(JOB, team="hr", gpus=1)]
    ml, hr = allocate(jobs, "dc1", 2.0)
    assert (ml.gpu_hours, ml.lost, ml.unused, ml.cost) == (48.0, 16.0, 12.0, 96.0)
    assert (hr.team, hr.gpu_hours, hr.cost) == ("hr", 2.0, 4.0)
    (unpriced,) = allocate([JOB], "dc1", None)
    assert unpriced.cost is None, "an unknown price is no price of 0"
    assert by_team([ml, replace(ml, cost=None, project="other")])[0].cost is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(1, 64)), max_size=30))
def test_every_gpu_hour_is_allocated_once(rows: list[tuple[str, str, int]]) -> None:
    jobs = [replace(JOB, team=team, project=project, gpus=gpus) for team, project, gpus in rows]
    found = allocate(jobs, "dc1", 1.5)
    total = sum(job.gpu_hours for job in jobs)
    assert sum(each.gpu_hours for each in found) == pytest.approx(total)
    assert sum(each.cost or 0 for each in by_team(found)) == pytest.approx(total * 1.5)
    assert len({(each.team, each.project, each.experiment) for each in found}) == len(found)


def days(*values: float) -> list[tuple[str, dt.date, float]]:
    return [("ml", START.date() + dt.timedelta(days=index), value) for index, value in enumerate(values)]


def test_only_days_far_above_the_two_weeks_before_are_unusual() -> None:
    steady = [1000.0, 1020.0, 990.0, 1010.0, 1000.0, 980.0, 1000.0] * 2
    assert find_anomalies(days(*steady, 1100.0), "AWS", "USD") == ()
    (found,) = find_anomalies(days(*steady, 2000.0), "AWS", "USD")
    assert (found.value, found.usual) == (2000.0, 1000.0)
    assert find_anomalies(days(*steady[:10], 5000.0), "AWS", "USD") == (), "too few days to compare with"
    assert find_anomalies(days(*[1.0] * 14, 90.0), "AWS", "USD") == (), "less than 100 USD"


def test_day_without_use_counts_as_0() -> None:
    values = [each for each in days(*[0.0] * 14, 500.0) if each[2] or each[1] == START.date()]
    (found,) = find_anomalies(values, "dc1", "GPU-hours")
    assert found.usual == 0.0


def test_job_that_uses_a_small_part_of_a_gpu_belongs_on_a_slice_or_a_smaller_gpu() -> None:
    small = replace(JOB, gpus=1, utilization=0.12, gpu_memory_gib=8.0, hours=10.0)
    (found,) = advise([small], CATALOG, "us-east-1")
    assert "MIG slice 2g.10gb of the A100" in found.text or "MIG slice" in found.text
    assert "T4" in found.text or "L4" in found.text
    assert (found.gpu_hours, found.utilization) == (10.0, 0.12)
    (wide,) = advise([replace(small, gpus=8)], CATALOG, "us-east-1")
    assert wide.text.startswith("use 2 instead of 8 GPUs")
    (unknown,) = advise([replace(small, gpu_memory_gib=None)], CATALOG, "us-east-1")
    assert "its memory was not measured" in unknown.text


def test_busy_short_and_unmeasured_jobs_get_no_advice() -> None:
    small = replace(JOB, gpus=1, utilization=0.12, gpu_memory_gib=8.0, hours=10.0)
    jobs = [replace(small, utilization=0.9), replace(small, hours=0.5, experiment="short")]
    assert advise([*jobs, replace(small, utilization=None)], CATALOG, "us-east-1") == ()


def test_csv_has_a_header_and_an_empty_field_for_an_unknown_cost() -> None:
    text = usage_to_csv(UsageReport((), allocate([JOB], "dc1", None)))
    assert text.splitlines() == [
        "source,team,project,experiment,gpu_hours,lost_gpu_hours,unused_gpu_hours,cost_usd",
        "dc1,ml,atlas,run,16.0000,0.0000,0.0000,",
    ]


def pod(name: str, phase: str, **labels: str) -> dict[str, object]:
    ended = {"terminated": {"finishedAt": "2026-03-01T03:00:00Z", "exitCode": 0}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-ml", "uid": name, "labels": labels},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}, {}]},
        "status": {
            "phase": phase,
            "startTime": "2026-03-01T01:00:00Z",
            "containerStatuses": [{"state": {"running": {}} if phase == "Running" else ended}],
        },
    }


def test_pods_have_gpus_from_start_to_end_or_until_now(tmp_path: Path) -> None:
    labels = {"gpufleet.io/team": "ml", "batch.kubernetes.io/job-name": "sweep"}
    pods = [pod("a", "Succeeded"), pod("b", "Failed", **labels), pod("c", "Running", **labels)]
    pods.append({"metadata": {"name": "cpu"}, "spec": {"containers": [{}]}, "status": {}})
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"kind": "List", "items": pods}), encoding="utf-8")
    found = read_pods(path, "use1", dt.datetime(2026, 3, 1, 11, tzinfo=dt.UTC))
    assert [(job.team, job.experiment, job.gpu_hours, job.lost) for job in found] == [
        ("team-ml", "", 8.0, False),
        ("ml", "sweep", 8.0, True),
        ("ml", "sweep", 40.0, False),
    ]


@pytest.mark.parametrize(
    ("text", "says"), [("no", "is not JSON"), ('{"kind": "Node"}', "is not a list of pods")]
)
def test_file_without_pods_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "pods.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        read_pods(path, "use1", dt.datetime(2026, 3, 1, tzinfo=dt.UTC))
