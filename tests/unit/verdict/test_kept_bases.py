"""Bases that are kept for the next verdict: found again by content, and never from where others can write."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.verdict.kept_bases import LASTS_S, MOST, KeptBase, KeptBases, key_of

BASE = KeptBase({"deployment": {"url": "http://127.0.0.1:1/x"}}, "secret", "http://127.0.0.1:1")
KEY = "a" * 64


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where entries lie."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gpufleet" / "bases"


def bases(tmp_path: Path) -> KeptBases:
    """Those of a verdict in a repository."""
    return KeptBases(tmp_path / "repository")


def keep(tmp_path: Path, key: str = KEY) -> None:
    """Keep the base with one file of its account."""
    file = tmp_path / "made" / "aws" / "state.pickle"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"account")
    bases(tmp_path).keep(key, BASE, [file], tmp_path / "made")


def test_base_is_found_again_with_the_files_of_its_account(tmp_path: Path, entries: Path) -> None:
    keep(tmp_path)
    assert bases(tmp_path).find(KEY, tmp_path / "next") == BASE
    assert (tmp_path / "next" / "aws" / "state.pickle").read_bytes() == b"account"
    assert [path.stat().st_mode & 0o777 for path in (entries, entries / KEY)] == [0o700, 0o600]


def test_another_key_finds_nothing_even_if_an_entry_has_its_name(tmp_path: Path, entries: Path) -> None:
    keep(tmp_path)
    assert bases(tmp_path).find("b" * 64, tmp_path / "next") is None
    (entries / KEY).rename(entries / ("b" * 64))
    assert bases(tmp_path).find("b" * 64, tmp_path / "next") is None
    assert not (tmp_path / "next").exists()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(bytes(data))


def _open_to_others(path: Path) -> None:
    path.chmod(0o666)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _age(path: Path) -> None:
    os.utime(path, (time.time() - LASTS_S - 60,) * 2)


@pytest.mark.parametrize("spoil", [_cut, _flip, _open_to_others, _link, _age])
def test_damaged_entry_is_not_used_and_is_deleted(
    tmp_path: Path, entries: Path, spoil: Callable[[Path], None]
) -> None:
    keep(tmp_path)
    spoil(entries / KEY)
    assert bases(tmp_path).find(KEY, tmp_path / "next") is None
    assert not (entries / KEY).exists()


def test_folder_writable_by_others_is_not_used(tmp_path: Path, entries: Path) -> None:
    keep(tmp_path)
    entries.chmod(0o777)
    assert bases(tmp_path).find(KEY, tmp_path / "next") is None


def test_folder_in_the_repository_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "repository" / ".cache"))
    keep(tmp_path)
    assert bases(tmp_path).find(KEY, tmp_path / "next") is None
    assert not (tmp_path / "repository").exists()


def test_folder_that_cannot_be_created_disables_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    keep(tmp_path)
    assert bases(tmp_path).find(KEY, tmp_path / "next") is None


def test_oldest_entries_are_deleted(tmp_path: Path, entries: Path) -> None:
    for number in range(MOST + 2):
        keep(tmp_path, f"{number}")
        os.utime(entries / f"{number}", (time.time() - 100 + number,) * 2)
    assert sorted(path.name for path in entries.iterdir()) == [f"{number}" for number in range(2, MOST + 2)]


def test_cached_state_gets_the_endpoint_of_the_current_account() -> None:
    moved = BASE.at("http://127.0.0.1:2")
    assert moved == {"deployment": {"url": "http://127.0.0.1:2/x"}}


def test_key_changes_with_everything_that_the_base_run_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {key_of("tree", "", "prod"), key_of("another tree", "", "prod"), key_of("tree", "", "dev")}
    monkeypatch.setenv("GPUFLEET_ANYTHING", "1")
    keys.add(key_of("tree", "", "prod"))
    (tmp_path / "something-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    keys.add(key_of("tree", "", "prod"))
    (tmp_path / "gpufleet").mkdir()
    (tmp_path / "gpufleet" / "verdict").mkdir()
    monkeypatch.setattr(
        "gpufleet.verdict.kept_bases.__file__", str(tmp_path / "gpufleet" / "verdict" / "kept_bases.py")
    )
    keys.add(key_of("tree", "", "prod"))
    (tmp_path / "gpufleet" / "engine.py").write_text("changed = True\n")
    keys.add(key_of("tree", "", "prod"))
    assert len(keys) == 7
    monkeypatch.setenv("PWD", "/elsewhere")
    assert key_of("tree", "", "prod") in keys
