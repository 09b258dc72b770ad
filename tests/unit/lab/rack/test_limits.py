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


def test_limits_allow_all_hosts_of_concurrent_racks(setting: Path) -> None:
    limits.raise_limit("one", 7)
    alone = int(setting.read_text())
    limits.raise_limit("two", 7)
    assert int(setting.read_text()) == alone + 7 * limits.PER_HOST
    limits.restore_limit("one")
    assert int(setting.read_text()) > 128
    limits.restore_limit("two")
    assert setting.read_text() == "128\n"
    assert not limits.KEPT.exists()


def test_sufficient_limit_is_unchanged(setting: Path) -> None:
    setting.write_text("8192\n")
    limits.raise_limit("one", 16)
    assert setting.read_text() == "8192\n"
    limits.restore_limit("one")
    assert setting.read_text() == "8192\n"


def test_rack_released_twice_does_not_affect_another(setting: Path) -> None:
    limits.raise_limit("one", 7)
    limits.raise_limit("two", 2)
    limits.restore_limit("two")
    limits.restore_limit("two")
    assert int(setting.read_text()) > 128
