"""The limit on inotify instances: room for the hosts of all racks, and given back by the last."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.lab.rack import limits


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "max_user_instances"
    path.write_text("128\n")
    monkeypatch.setattr(limits, "INSTANCES", path)
    monkeypatch.setattr(limits, "KEPT", tmp_path / "kept")
    return path


def test_racks_that_are_up_together_have_room_for_all_their_hosts(setting: Path) -> None:
    limits.raise_for("one", 7)
    alone = int(setting.read_text())
    limits.raise_for("two", 7)
    assert int(setting.read_text()) == alone + 7 * limits.PER_HOST
    limits.give_back("one")
    assert int(setting.read_text()) > 128
    limits.give_back("two")
    assert setting.read_text() == "128\n"
    assert not limits.KEPT.exists()


def test_a_setting_with_room_is_left_alone(setting: Path) -> None:
    setting.write_text("8192\n")
    limits.raise_for("one", 16)
    assert setting.read_text() == "8192\n"
    limits.give_back("one")
    assert setting.read_text() == "8192\n"


def test_a_rack_that_is_given_back_twice_takes_nothing_from_another(setting: Path) -> None:
    limits.raise_for("one", 7)
    limits.raise_for("two", 2)
    limits.give_back("two")
    limits.give_back("two")
    assert int(setting.read_text()) > 128
