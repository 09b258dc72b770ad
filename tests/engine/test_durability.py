"""After a power failure: every step is on disk before its operation starts and after it has ended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpufleet.engine.api import Event, ResourceEvent
from gpufleet.engine.embedded import checkpoint
from gpufleet.engine.embedded.files import make_folder
from gpufleet.engine.embedded.journal import StateJournal, journal_of
from gpufleet.engine.embedded.provider import Provider

from .conftest import Lab


class Disk:
    """The content of a file as of its last sync, as after a power failure."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.kept = b""
        self._sync = os.fdatasync
        patch.setattr(os, "fdatasync", self._synced)

    def _synced(self, descriptor: int) -> None:
        self._sync(descriptor)
        if os.path.samestat(os.fstat(descriptor), self.path.stat()):
            self.kept = self.path.read_bytes()

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.kept.splitlines()]

    def under_way(self, urn: str) -> list[str]:
        """Operations on a resource that have started and not ended."""
        ended = {record.get("n") for record in self.records() if record["kind"] == "step"}
        return [
            record["type"]
            for record in self.records()
            if record["kind"] == "begin" and record["resource"]["urn"] == urn and record["n"] not in ended
        ]


def test_operation_is_on_disk_before_the_provider_call_and_after_it_ends(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.up("""
        a = Box("a", {"zone": "x"})
        Box("b", {"of": a.arn, "size": 1})
        Box("c")
        Box("s", {"slot": 1})
    """)
    disk = Disk(journal_of(lab.request.state_file), monkeypatch)
    heard: list[tuple[str, str]] = []

    def listening(verb: str, doing: str) -> Callable[..., Any]:
        genuine = getattr(Provider, verb)

        def call(provider: Provider, urn: str, *args: Any, **options: Any) -> Any:
            assert disk.under_way(urn) == [doing]
            heard.append((doing, urn[-1]))
            return genuine(provider, urn, *args, **options)

        return call

    for verb, doing in (("create", "creating"), ("update", "updating"), ("delete", "deleting")):
        monkeypatch.setattr(Provider, verb, listening(verb, doing))
    done: list[tuple[str, str]] = []

    def record(event: Event) -> None:
        if isinstance(event, ResourceEvent) and event.status == "done" and event.type == "box:index:Box":
            assert disk.under_way(event.urn) == []
            done.append((event.op.value, event.name))

    lab.program("""
        a = Box("a", {"zone": "y"})
        Box("b", {"of": a.arn, "size": 2})
        Box("s", {"slot": 2})
        Box("n")
    """)
    assert lab.engine.up(lab.request, record).ok
    assert sorted(heard) == [
        ("creating", "a"), ("creating", "n"), ("creating", "s"),
        ("deleting", "a"), ("deleting", "c"), ("deleting", "s"), ("updating", "b"),
    ]  # fmt: skip
    assert {("create", "n"), ("update", "b"), ("delete", "c"), ("delete-replaced", "a")} <= set(done)


def test_durable_line_is_synced_before_append_returns_and_other_lines_are_batched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path / "dev.json.journal", monkeypatch)
    writer = StateJournal(disk.path, "d")
    assert disk.records() == [{"kind": "base", "digest": "d"}]
    writer.append({"kind": "step", "who": 1}, durable=False)
    writer.append({"kind": "step", "who": 2}, durable=True)
    assert [record.get("who") for record in disk.records()] == [None, 1, 2]
    writer.close(remove=False)


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Syncs, renames and creations, in order."""
    seen: list[str] = []
    sync, rename, mkdir, open_ = os.fsync, Path.replace, Path.mkdir, os.open

    def synced(descriptor: int) -> None:
        seen.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        sync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        seen.append(f"{path.name} -> {target.name}")
        return rename(path, target)

    def made(path: Path, *args: Any, **options: Any) -> None:
        mkdir(path, *args, **options)
        seen.append(f"make {path.name}")

    def opened(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            seen.append(f"open {Path(path).name}")
        return open_(path, flags, *args, **options)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    monkeypatch.setattr(Path, "mkdir", made)
    monkeypatch.setattr(os, "open", opened)
    return seen


def test_checkpoint_and_its_folder_are_synced_when_it_is_replaced(tmp_path: Path, order: list[str]) -> None:
    folder = tmp_path / "state"
    checkpoint.save(folder / "dev.json", [], [], "")
    assert order == [
        "make state", f"sync {tmp_path.name}", "open dev.json.tmp", "sync dev.json.tmp",
        "dev.json.tmp -> dev.json", "sync state",
    ]  # fmt: skip


def test_journal_file_name_is_on_disk_before_its_first_line(tmp_path: Path, order: list[str]) -> None:
    StateJournal(tmp_path / "state" / "dev.json.journal", "d").close(remove=False)
    assert order == ["make state", f"sync {tmp_path.name}", "open dev.json.journal", "sync state"]


def test_folders_are_created_and_synced_from_the_top(tmp_path: Path, order: list[str]) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert order == ["make a", f"sync {tmp_path.name}", "make b", "sync a"]
