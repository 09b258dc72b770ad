"""`gpufleet usage`: the JSON, text and CSV of the prod environment's files, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli.main import main
from tests.unit.economics.cur_files import write_cur
from tests.unit.economics.test_sacct import HEADER, JOB

STEP = "7.0|train|ml||COMPLETED|7200|2026-03-01T10:00:00|x|gres/gpu=4|gres/gpuutil=12|gres/gpumem=9G\n"
FLEET = str(Path(__file__).resolve().parents[3] / "stacks" / "prod" / "fleet.yaml")


@pytest.fixture(autouse=True)
def outside_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sacct.txt").write_text(HEADER + JOB + STEP, encoding="utf-8")


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["usage", FLEET, *words]) == code
    captured = capsys.readouterr()
    return " ".join(captured.err.split()) if code else captured.out


def test_jobs_of_racks_have_the_price_of_their_site(capsys: pytest.CaptureFixture[str]) -> None:
    found: Any = json.loads(run(capsys, "--sacct", "sacct.txt", "--site", "dc1", "--json"))
    (team,) = found["teams"]
    (capacity,) = found["capacity"]
    assert found["currency"] == "USD"
    assert (team["source"], team["team"], team["gpu_hours"]) == ("dc1", "ml", 8.0)
    assert team["cost"] == pytest.approx(8 * capacity["gpu_hour"])
    assert capacity["gpu_hour"] == pytest.approx((91018.0425 + 571500) / (127 * 8) / 730)
    assert capacity["idle_gpu_hours"] == pytest.approx(127 * 8 * 2 - 8)
    assert team["unused_gpu_hours"] == pytest.approx(8 * 0.88)
    assert found["advice"][0]["utilization"] == pytest.approx(0.12)


def test_report_of_aws_and_jobs_are_one_report_with_text_and_csv(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_cur(tmp_path / "cur.parquet", [{"resource_tags": {"user_team": "ml"}}])
    words = ("--sacct", "sacct.txt", "--site", "dc1", "--cur", "cur.parquet", "--csv", "out/showback.csv")
    text = run(capsys, *words)
    assert "(idle)" in text
    assert "AWS" in text
    assert "USD per GPU-hour" in text
    with (tmp_path / "out" / "showback.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["source"], row["team"], row["gpu_hours"]) for row in rows] == [
        ("dc1", "ml", "8.0000"),
        ("AWS", "ml", "8.0000"),
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "no usage to read"),
        (("--sacct", "sacct.txt"), "2 sites of the fleet use slurm"),
        (("--sacct", "sacct.txt", "--site", "dc9"), "the fleet has no site 'dc9'"),
        (("--sacct", "none.txt", "--site", "dc1"), "none.txt cannot be read"),
        (("--sacct", "sacct.txt", "--site", "dc1", "--cur", "none.csv"), "none.csv does not exist"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    assert says in run(capsys, *words, "--csv", "showback.csv", code=2)
    assert not (tmp_path / "showback.csv").exists()
