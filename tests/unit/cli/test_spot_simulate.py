"""`gpufleet spot simulate`: the JSON, text, traces from files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli.main import main

WORDS = (
    "spot", "simulate", "--instance-type", "p5.48xlarge", "--region", "us-west-2", "--work", "72 h",
    "--nodes", "8", "--checkpoint", "60s", "--runs", "2000",
)  # fmt: skip
RECLAIMED = (*WORDS, "--mtbf", "48 h", "--wait", "30 min")


@pytest.fixture(autouse=True)
def outside_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    captured = capsys.readouterr()
    return " ".join(captured.err.split()) if code else captured.out


def supplies(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    document = json.loads(run(capsys, *words, "--json"))
    assert document["currency"] == "USD"
    return {each["supply"]: each for each in document["supplies"]}


def test_supplies_are_compared_with_spread_saving_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    found = supplies(capsys, *RECLAIMED, "--deadline", "90 h", "--onprem-price", "20 USD/h")
    assert list(found) == ["spot", "spot with on-demand", "on-demand", "capacity block", "on-premises"]
    assert found["on-demand"]["saving_fraction"] == 0.0
    assert found["spot"]["saving_fraction"] > 0.5
    assert (
        found["spot"]["finish_h"]["p5"] < found["spot"]["finish_h"]["p50"] < found["spot"]["finish_h"]["p95"]
    )
    assert found["spot"]["meets_deadline_fraction"] < found["spot with on-demand"]["meets_deadline_fraction"]
    assert found["capacity block"]["cost"]["p50"] == pytest.approx(47.76 * 24 * 4 * 8)
    assert "4 days, paid upfront" in found["capacity block"]["note"]
    assert found["on-premises"]["cost"]["p50"] == pytest.approx(
        found["on-demand"]["cost"]["p50"] / 55.04 * 20
    )
    assert all(each["source"] for each in found.values())


def test_spot_that_is_reclaimed_often_costs_more_than_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*WORDS, "--mtbf", "8 h", "--price", "50 USD/h", "--restart", "20 min")
    assert supplies(capsys, *words)["spot"]["saving_fraction"] < 0


def test_without_deadline_there_is_no_change_to_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    found = supplies(capsys, *RECLAIMED)
    assert "spot with on-demand" not in found
    assert found["spot"]["meets_deadline_fraction"] is None


def test_unknown_prices_are_reported_and_never_0(capsys: pytest.CaptureFixture[str]) -> None:
    words = list(RECLAIMED)
    words[3], words[5] = "g7.2xlarge", "us-east-1"
    found = supplies(capsys, *words)
    assert found["spot"]["cost"] is None
    assert found["spot"]["node_hour"] is None
    assert "no spot price of g7.2xlarge in us-east-1 is known" in found["spot"]["reason"]
    assert "not sold as Capacity Blocks" in found["capacity block"]["reason"]
    assert found["capacity block"]["feasible"] is False
    assert found["on-premises"]["reason"] == "no price is given; `gpufleet tco` computes it"


def test_traces_from_files_replace_price_and_reclaims(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    hours = range(0, 49, 12)
    times = [f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:00:00Z" for hour in hours]
    (tmp_path / "p.csv").write_text(
        "time,price\n" + "".join(f"{each},{10 + index % 2 * 10}\n" for index, each in enumerate(times))
    )
    (tmp_path / "n.csv").write_text(
        "time,nodes\n" + "".join(f"{each},{8 if index % 4 else 2}\n" for index, each in enumerate(times))
    )
    found = supplies(capsys, *WORDS, "--prices", "p.csv", "--capacity", "n.csv")["spot"]
    assert found["node_hour"] == pytest.approx(15.0)
    assert (found["source"], found["date"]) == ("p.csv", "2026-01-01")
    assert found["interruptions"] >= 1
    capped = supplies(capsys, *WORDS, "--prices", "p.csv", "--max-price", "15 USD/h")["spot"]
    assert capped["cost"]["p50"] < found["cost"]["p50"]


@pytest.mark.parametrize("width", ["60", "80", "140"])
def test_text_fits_the_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    words = (*RECLAIMED, "--deadline", "90 h")
    shown = run(capsys, *words).partition("prices:")[0].splitlines()
    assert any("spot with on-demand" in line for line in shown)
    assert [line for line in shown if len(line.rstrip()) > int(width)] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (WORDS, "nothing says how often spot nodes are reclaimed"),
        ((*RECLAIMED, "--price", "1 USD/h", "--history", "3"), "--price and --history: one price of spot"),
        ((*WORDS, "--max-price", "9 USD/h"), "--max-price needs prices over time"),
        ((*RECLAIMED, "--zone", "us-west-2a"), "--zone chooses among prices over time"),
        ((*RECLAIMED, "--deadline", "tomorrow"), "--deadline: 'tomorrow' is not a duration"),
        ((*RECLAIMED, "--price", "9 EUR/h"), "--price: '9 EUR/h'"),
        ((*RECLAIMED, "--runs", "0"), "runs is 0; it must be from 1 to"),
        ((*RECLAIMED, "--gpu-hours-per-failure", "0"), "0 GPU-hours per failure is not above 0"),
        ((*WORDS, "--mtbf", "20 min"), "the job would compute nothing"),
        ((*WORDS, "--capacity", "none.csv"), "none.csv cannot be read"),
    ],
)
def test_bad_input_is_refused_without_a_result(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert says in run(capsys, *words, code=2)


def test_history_without_credentials_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    text = run(capsys, *RECLAIMED, "--history", "30", code=2)
    assert "no AWS credentials: --history reads the prices from an account" in text
