"""Captures of real tools are found, and a test without them is skipped for the listed reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import captures, skips


def test_captures_are_read_from_the_named_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "INDEX.md").write_text("# captures\n")
    (tmp_path / "diag.json").write_text('{"version": "4"}')
    monkeypatch.setenv(captures.VARIABLE, str(tmp_path))
    assert captures.load_capture("diag.json") == {"version": "4"}
    with pytest.raises(AssertionError, match=r"has no ibstat\.txt"):
        captures.read_capture("ibstat.txt")


def test_without_captures_the_test_is_skipped_for_a_listed_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(captures.VARIABLE, str(tmp_path))
    with pytest.raises(pytest.skip.Exception) as skipped:
        captures.captures_folder()
    assert str(skipped.value).startswith(skips.listed_reasons(skips.README.read_text()))
