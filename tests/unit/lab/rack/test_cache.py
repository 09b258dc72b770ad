"""Shared data of racks: created once, complete or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.lab.rack.cache import cached


def test_data_is_made_once_for_a_recipe(tmp_path: Path) -> None:
    made: list[str] = []

    def make(folder: Path) -> None:
        made.append(folder.name)
        (folder / "data").write_text(str(len(made)))

    first = cached(tmp_path, "base", "recipe", make)
    assert cached(tmp_path, "base", "recipe", make) == first
    assert cached(tmp_path, "base", "another", make) != first
    assert ((first / "data").read_text(), len(made)) == ("1", 2)


def test_program_of_a_killed_run_writes_to_another_folder(tmp_path: Path) -> None:
    left: list[Path] = []

    def killed(folder: Path) -> None:
        left.append(folder)
        raise KeyboardInterrupt

    def make(folder: Path) -> None:
        assert not left[0].exists()
        # Its program goes on.
        left[0].mkdir()
        (left[0] / "data").write_text("half")
        (folder / "data").write_text("whole")

    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, "base", "recipe", killed)
    ready = cached(tmp_path, "base", "recipe", make)
    assert [each.read_text() for each in ready.iterdir()] == ["whole"]
