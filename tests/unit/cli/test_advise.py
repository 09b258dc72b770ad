"""`gpufleet advise`: JSON, text, options, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
JOBS = ROOT / "docs" / "examples" / "jobs"
WORDS = ("advise", str(JOBS / "pretrain-20b.yaml"), "--env", str(ROOT / "stacks" / "prod" / "fleet.yaml"))


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    captured = capsys.readouterr()
    return " ".join(captured.err.split()) if code else captured.out


def test_json_has_feasible_places_first_with_cost_time_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, *WORDS, "--runs", "200", "--json"))
    assert (found["job"], found["kind"], found["currency"]) == ("pretrain-20b", "training", "USD")
    feasible = [each for each in found["places"] if each["feasible"]]
    assert found["places"][: len(feasible)] == feasible
    for each in feasible:
        assert each["finish_h"]["p5"] <= each["finish_h"]["p95"]
        assert each["cost"]["mean"] > 0
        assert each["source"]
    spot = next(each for each in feasible if each["place"] == "usw2/overflow")
    assert spot["cost_without_interruptions"] == pytest.approx(13_824.00)
    assert all(each["reasons"] for each in found["places"] if not each["feasible"])


@pytest.mark.parametrize("job", ["pretrain-20b", "captions", "edge"])
@pytest.mark.parametrize("width", ["60", "80", "140"])
def test_tables_fit_the_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, job: str, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    text = run(capsys, "advise", str(JOBS / f"{job}.yaml"), *WORDS[2:], "--runs", "100")
    table = text.partition("not possible:")[0].splitlines()
    assert table
    assert [line for line in table if len(line.rstrip()) > int(width)] == []


def test_gpu_to_add_widens_the_choice(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("advise", str(JOBS / "captions.yaml"), *WORDS[2:], "--json")
    places = {each["place"] for each in json.loads(run(capsys, *words, "--add", "T4"))["places"]}
    assert any("g4dn" in place for place in places)
    assert not any("g4dn" in each["place"] for each in json.loads(run(capsys, *words))["places"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*WORDS, "--budget-left", "9000 EUR"), "'EUR' is not USD"),
        ((*WORDS, "--mfu", "2"), "--mfu: 2 is not above 0 and at most 1"),
        ((*WORDS, "--add", "H1000"), "unknown GPU 'H1000'"),
        ((*WORDS, "--runs", "0"), "runs is 0"),
        (("advise", "none.yaml", *WORDS[2:]), "there is no file none.yaml"),
    ],
)
def test_bad_input_is_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str) -> None:
    assert says in run(capsys, *words, code=2)
