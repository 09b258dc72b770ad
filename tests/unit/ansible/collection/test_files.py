"""Files: written atomically, only if they differ, validated first, and without secrets in output."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
ME = {"owner": str(os.getuid()), "group": str(os.getgid())}


@pytest.fixture
def files() -> ModuleType:
    return load("files")


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.lstat().st_mode):04o}"


def test_file_is_written_once_with_its_parents_and_mode(files: ModuleType, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a/b/c.conf"
    item = ME | {"path": str(path), "content": "x\n", "mode": "0600"}
    predicted = run(files, check=True, files=[item])
    assert predicted["changed_files"] == [str(path)] and not path.exists()
    assert run(files, files=[item])["changed_files"] == [str(path)]
    assert path.read_text() == "x\n" and mode(path) == "0600"
    assert run(files, files=[item])["changed"] is False


def test_text_mode_and_owner_are_each_a_difference(files: ModuleType, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    item = ME | {"path": str(path), "content": "x\n"}
    run(files, files=[item])
    assert mode(path) == "0644"
    path.chmod(0o666)
    again = run(files, files=[item], diff=True)
    assert again["changed"] and "mode 0666 -> 0644" in again["diff"][0]["after"]
    path.write_text("y\n")
    assert run(files, files=[item])["changed"] and path.read_text() == "x\n"


def test_file_of_the_site_is_created_and_never_overwritten(
    files: ModuleType, run: Run, tmp_path: Path
) -> None:
    item = ME | {"path": str(tmp_path / "site.conf"), "content": "# empty\n", "overwrite": False}
    assert run(files, check=True, files=[item])["changed"] is True
    assert run(files, files=[item])["changed"] is True
    (tmp_path / "site.conf").write_text("MaxJobCount=1\n")
    (tmp_path / "site.conf").chmod(0o600)
    assert run(files, files=[item])["changed"] is False
    assert (tmp_path / "site.conf").read_text() == "MaxJobCount=1\n" and mode(
        tmp_path / "site.conf"
    ) == "0600"


def test_unknown_owner_passes_in_check_mode_and_is_refused_otherwise(
    files: ModuleType, run: Run, tmp_path: Path
) -> None:
    item = {"path": str(tmp_path / "key"), "content": "x", "owner": "nobody-here"}
    assert run(files, check=True, files=[item])["changed"] is True
    answer = run(files, files=[item])
    assert answer["failed"] and "nobody-here" in answer["msg"]
    assert not (tmp_path / "key").exists()


def test_a_secret_is_in_no_diff(files: ModuleType, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "munge.key"
    for text in ("first-secret", "second-secret"):
        item = ME | {"path": str(path), "content": text, "secret": True, "mode": "0400"}
        answer = run(files, files=[item], diff=True)
        assert answer["changed"] and "secret" in answer["diff"][0]["after"]
        assert "first-secret" not in str(answer["diff"]) and "second-secret" not in str(answer["diff"])
    assert path.read_text() == "second-secret" and mode(path) == "0400"


def test_rejected_text_keeps_the_old_file_and_reports_the_reason(
    files: ModuleType, run: Run, programs: Programs, tmp_path: Path
) -> None:
    path = tmp_path / "sudoers"
    path.write_text("old\n")
    programs.add("judge", 'grep -q good "$2" || { echo "$2: bad line" >&2; exit 1; }')
    item = ME | {"path": str(path), "content": "evil\n", "validate": f"{programs.folder}/judge -f %s"}
    answer = run(files, files=[item])
    assert answer["failed"] and f"{path}: bad line" in answer["msg"]
    assert path.read_text() == "old\n"
    assert run(files, files=[item | {"content": "good\n"}])["changed"]
    assert path.read_text() == "good\n"


def test_missing_validator_is_skipped_only_in_check_mode(files: ModuleType, run: Run, tmp_path: Path) -> None:
    item = ME | {"path": str(tmp_path / "x"), "content": "x", "validate": "no-such-judge %s"}
    assert run(files, check=True, files=[item])["changed"] is True
    answer = run(files, files=[item])
    assert answer["failed"] and "no-such-judge" in answer["msg"]


def test_links_folders_and_absent_files_are_managed(files: ModuleType, run: Run, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old/file").touch()
    (tmp_path / "link").write_text("a file first")
    items: list[dict[str, Any]] = [
        ME | {"path": str(tmp_path / "folder"), "directory": True, "mode": "0750"},
        {"path": str(tmp_path / "link"), "link": "folder"},
        {"path": str(tmp_path / "old"), "absent": True},
    ]
    predicted = run(files, check=True, files=items)
    answer = run(files, files=items)
    assert predicted["changed_files"] == answer["changed_files"]
    assert mode(tmp_path / "folder") == "0750"
    assert (tmp_path / "link").readlink() == Path("folder")
    assert not (tmp_path / "old").exists()
    assert run(files, files=items)["changed"] is False


def test_folder_in_place_of_a_file_is_not_removed(files: ModuleType, run: Run, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    for item in ({"content": "x"}, {"link": "y"}):
        answer = run(files, files=[ME | {"path": str(tmp_path / "x"), **item}])
        assert answer["failed"] and "Move it away" in answer["msg"]
    assert (tmp_path / "x").is_dir()


def test_invalid_octal_mode_is_refused(files: ModuleType, run: Run, tmp_path: Path) -> None:
    answer = run(files, files=[ME | {"path": str(tmp_path / "x"), "content": "", "mode": "rw"}])
    assert answer["failed"] and "octal" in answer["msg"]


def test_full_disk_is_reported_with_a_remedy_and_without_file_contents(
    files: ModuleType, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    answer = run(files, files=[ME | {"path": str(tmp_path / "x"), "content": "hidden"}])
    assert answer["failed"] and "disk is full" in answer["msg"].lower()
    assert "hidden" not in str(answer)
