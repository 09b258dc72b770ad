"""Records of runs, and their use by the next run."""

from __future__ import annotations

import json
import stat

import pytest

from gpufleet.errors import InputError, RefusedError
from gpufleet.racks.configure.record import LastRun, RunFolder
from gpufleet.racks.configure.redact import Redactor
from gpufleet.racks.diffs import Diff
from gpufleet.racks.events import TaskEvent

SECRET = "planted-secret-value"


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / ".gpufleet", "prod")


def event(kind, host="a", **more):
    return TaskEvent(kind=kind, host=host, task="Task", role="base", **more)


def test_first_run_has_no_previous_run(folder):
    assert folder.last() is None


def test_complete_run_round_trips(folder):
    last = LastRun("r1", True, {"a": "done", "b": "failed", "c": "unreachable"}, ("base",), "t")
    folder.save(last)
    assert folder.last() == last
    assert last.left == ("b", "c")
    assert stat.S_IMODE(folder.last_file.stat().st_mode) == 0o600


def test_interrupted_run_is_known_from_its_journal(folder):
    with folder.locked():
        folder.save(LastRun("r1", False, dict.fromkeys("abc", "pending"), (), "t"))
        journal = folder.open_journal("r1", Redactor([]))
        journal.write(event("changed"))
        journal.write(event("failed", "b", message="no"))
        journal.write(event("unreachable", "c"))
        journal.close()
    with folder.journal_file("r1").open("a") as file:
        file.write('{"kind": "failed", "ho')
    last = folder.last()
    assert last.hosts == {"a": "pending", "b": "failed", "c": "unreachable"}
    assert last.left == ("a", "b", "c")


def test_run_killed_before_its_journal_leaves_all_hosts_pending(folder):
    folder.save(LastRun("r1", False, dict.fromkeys("ab", "pending")))
    assert folder.last().left == ("a", "b")


def test_damaged_file_is_reported_for_the_user_to_remove(folder):
    folder.last_file.parent.mkdir(parents=True)
    folder.last_file.write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        folder.last()


def test_journal_has_no_secret_and_is_private(folder):
    with folder.locked():
        journal = folder.open_journal("r1", Redactor([SECRET]))
    diff = Diff(f"/etc/{SECRET}", f"+{SECRET}")
    journal.write(event("started"))
    journal.write(event("changed", diffs=(diff,), duration_s=1.23456))
    journal.write(event("failed", message=f"it was {SECRET}"))
    journal.close()
    text = folder.journal_file("r1").read_text()
    assert SECRET not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["kind"] for line in lines] == ["changed", "failed"]
    assert lines[0]["duration_s"] == 1.235
    assert stat.S_IMODE(folder.journal_file("r1").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_old_runs_are_removed(folder):
    with folder.locked():
        for number in range(25):
            folder.open_journal(f"r{number:02}", Redactor([])).close()
            folder.page_file(f"r{number:02}").write_text("page")
    left = {path.stem for path in (folder.path / "runs").iterdir()}
    assert left == {f"r{number:02}" for number in range(5, 25)}


def test_concurrent_runs_are_refused(folder):
    with folder.locked(), pytest.raises(RefusedError, match="is in progress"), folder.locked():
        pass
    with folder.locked():
        pass
