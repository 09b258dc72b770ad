"""Time estimates: by the current pace, and by the last run."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.cli import counting
from gpufleet.cli.counting import Expectation, Pace, duration
from gpufleet.cli.run_log import Durations


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock to be set."""
    times = [0.0]
    monkeypatch.setattr(counting.time, "monotonic", lambda: times[0])
    return times


def test_current_pace_predicts_the_remaining_time(now: list[float]) -> None:
    pace = Pace("up", expected=Expectation(100))
    now[0], pace.done = 30.0, 25
    assert pace.left_s() == pytest.approx(90)
    assert pace.words() == "up: 25 of 100 done, 30 s, about 1 min 30 s left"


def test_last_run_dominates_the_estimate_at_first_and_fades(now: list[float]) -> None:
    pace = Pace("up", expected=Expectation(100, seconds=60))
    assert pace.left_s() == 60
    now[0], pace.done = 10.0, 50
    assert pace.left_s() == pytest.approx(0.5 * 10 + 0.5 * 50)
    # It takes longer than the last run: only the pace counts.
    now[0] = 80.0
    assert pace.left_s() == pytest.approx(80)


def test_no_estimate_is_made_without_data_or_at_the_end(now: list[float]) -> None:
    now[0] = 5.0
    assert Pace("up").left_s() is None
    pace = Pace("up", Expectation(10))
    assert pace.words() == "up: 0 of 10 done, 0 s"
    pace.done = 10
    assert "left" not in pace.words()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min"), (185, "3 min 5 s"), (3720, "1 h 2 min"), (3600, "1 h")],
)
def test_durations_have_readable_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_last_run_is_stored_by_key_and_used_for_runs_of_its_size(tmp_path: Path) -> None:
    durations = Durations(tmp_path / "new" / "durations.json")
    assert durations.expected("sandbox/dev/up") == Expectation()
    durations.keep("sandbox/dev/up", 100, 33.333)
    durations.keep("aws/dev/up", 10, 900)
    assert durations.expected("sandbox/dev/up") == Expectation(100, 33.3)
    assert durations.expected("sandbox/dev/up", 110) == Expectation(110, 33.3)
    assert durations.expected("sandbox/dev/up", 300) == Expectation(300)
    (tmp_path / "new" / "durations.json").write_text("[1")
    assert durations.expected("sandbox/dev/up") == Expectation()
