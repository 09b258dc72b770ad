"""Killed, interrupted or locked runs, and damaged states: no resource is lost and no process left."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpufleet.engine.api import Changes
from gpufleet.engine.embedded.lock import StateLock
from gpufleet.engine.errors import StateError, StateLockedError
from gpufleet.errors import ExitCode

from .conftest import Lab

RUNNER = """
import pickle, sys
from gpufleet.engine.embedded.engine import EmbeddedEngine
request = pickle.loads(open(sys.argv[1], "rb").read())
result = getattr(EmbeddedEngine(), sys.argv[2])(request, lambda event: None)
print(result.ok, flush=True)
"""


@pytest.fixture
def start(lab: Lab, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a verb in its own process."""
    started: list[subprocess.Popen[str]] = []

    def run(verb: str) -> subprocess.Popen[str]:
        request = tmp_path / "request.pickle"
        lab.configure(config=dict(lab.request.config), providers=dict(lab.request.providers))
        request.write_bytes(pickle.dumps(lab.request))
        process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(request), verb], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)


def processes_of(lab: Lab) -> list[str]:
    """Command lines of the processes that an engine has started in this lab."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink().is_relative_to(lab.folder):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


CHAIN = 'a = Box("a")\nb = Box("b", {"of": a.arn})\nBox("c", {"of": b.arn})\n'


def test_killed_up_is_reported_and_finished_by_the_next_up(
    lab: Lab, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    lab.program(CHAIN)
    lab.fault("create", "b", delay=60)
    process = start("up")
    wait_for(lambda: (lab.cloud / "reached").exists())
    # The program and a provider.
    assert len(processes_of(lab)) == 2
    process.kill()
    process.wait()
    # The journal has everything before the checkpoint is written.
    assert not lab.request.state_file.exists()
    assert "a" in lab.resources()
    (pending,) = lab.export()["pending_operations"]
    assert (pending["type"], pending["resource"]["urn"][-1]) == ("creating", "b")
    wait_for(lambda: processes_of(lab) == [])
    lab.no_faults()
    result = lab.up()
    assert "did not finish creating urn:pulumi:dev::lab::box:index:Box::b" in lab.messages("warning")
    assert result.changes == Changes(create=2, same=2)
    assert lab.names() == ["a", "b", "c"]
    assert lab.up().changes == Changes(same=4)
    assert lab.run("destroy").ok
    assert lab.names() == []


def test_killed_update_and_killed_destroy_lose_no_resource(
    lab: Lab, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    lab.up('Box("a", {"size": 1})\nBox("b", {"size": 1})\n')
    lab.program('Box("a", {"size": 2})\nBox("b", {"size": 1})\n')
    lab.fault("update", "a", delay=60)
    process = start("up")
    wait_for(lambda: (lab.cloud / "reached").exists())
    process.kill()
    process.wait()
    assert [p["type"] for p in lab.export()["pending_operations"]] == ["updating"]
    lab.no_faults()
    assert lab.up().changes == Changes(update=1, same=2)
    (lab.cloud / "reached").unlink()
    lab.fault("delete", "b", delay=60)
    process = start("destroy")
    wait_for(lambda: (lab.cloud / "reached").exists() and lab.names() == ["b"])
    process.kill()
    process.wait()
    assert "b" in lab.resources()
    lab.no_faults()
    assert lab.run("destroy").ok
    assert lab.names() == []


def test_delete_before_replace_survives_a_kill_in_between(
    lab: Lab, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    text = 'a = Box("a", {{"slot": {0}}})\nBox("b", {{"slot": a.arn}})\n'
    lab.up(text.format(1))
    lab.program(text.format(2))
    lab.fault("create", "a", delay=60)
    process = start("up")
    wait_for(lambda: (lab.cloud / "reached").exists())
    process.kill()
    process.wait()
    assert lab.names() == []
    assert all(lab.resources()[name]["pendingReplacement"] for name in ("a", "b"))
    lab.no_faults()
    lab.forget_calls()
    assert lab.up().changes == Changes(replace=2, same=1)
    assert lab.calls("delete") == []
    assert lab.names() == ["a", "b"]
    assert lab.up().changes == Changes(same=3)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_ends_its_child_processes_and_keeps_the_state(
    lab: Lab, start: Callable[[str], subprocess.Popen[str]], sign: signal.Signals
) -> None:
    lab.program(CHAIN)
    lab.fault("create", "b", delay=1)
    process = start("up")
    wait_for(lambda: (lab.cloud / "reached").exists())
    assert len(processes_of(lab)) == 2
    process.send_signal(sign)
    out, _ = process.communicate(timeout=30)
    assert out.strip() == "False"
    assert processes_of(lab) == []
    # The running step was finished, the next one was not started.
    assert set(lab.resources()) == {"lab-dev", "default", "a", "b"}
    assert "pending_operations" not in lab.export()
    assert lab.up().changes == Changes(create=1, same=3)


def test_second_interruption_kills_and_leaves_the_operation_pending(
    lab: Lab, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    lab.program(CHAIN)
    lab.fault("create", "b", delay=60)
    process = start("up")
    wait_for(lambda: (lab.cloud / "reached").exists())
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=8)
    assert out.strip() == "False"
    assert processes_of(lab) == []
    (pending,) = lab.export()["pending_operations"]
    assert pending["resource"]["urn"].endswith("::b")


def test_no_process_is_left_after_a_run(lab: Lab) -> None:
    lab.up('Box("a")\n')
    assert processes_of(lab) == []


def test_concurrent_run_is_refused_with_the_holder_of_the_lock(
    lab: Lab, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    lab.program('Box("a")\n')
    lab.fault("create", "a", delay=60)
    process = start("up")
    wait_for(lambda: (lab.cloud / "reached").exists())
    with pytest.raises(StateLockedError) as locked:
        lab.run("destroy")
    assert f"process {process.pid} on " in locked.value.message
    assert "(up, since " in locked.value.message
    assert locked.value.exit_code is ExitCode.CLOUD_FAILURE
    # A preview only reads.
    assert lab.run("preview").ok
    process.kill()
    process.wait()
    lab.no_faults()
    assert lab.up().ok


def test_run_after_a_crash_waits_for_operations_of_the_old_provider(
    lab: Lab, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    lab.program('Box("a")\n')
    # It ignores the request to end, and creates the box just before it is killed.
    lab.fault("create", "a", delay=0.8, stubborn=True)
    process = start("up")
    wait_for(lambda: (lab.cloud / "reached").exists())
    process.kill()
    process.wait()
    assert lab.things() == {}
    lab.up()
    assert "did not finish creating" in lab.messages("warning")
    assert processes_of(lab) == []
    assert list(lab.things()) == [lab.resources()["a"]["id"]]
    assert lab.up().changes.total == 0


def test_lock_holder_on_another_host_is_not_assumed_dead(lab: Lab) -> None:
    with StateLock(lab.request.state_file, "up") as lock:
        reported = json.loads(lock.path.read_text())
        lock.path.write_text(json.dumps({**reported, "pid": 2**22 + 1, "host": "elsewhere"}))
        with pytest.raises(StateLockedError, match="on elsewhere"):
            lab.program("").run("up")


def test_lock_of_a_dead_process_is_released(lab: Lab) -> None:
    with StateLock(lab.request.state_file, "up"), pytest.raises(StateLockedError, match=str(os.getpid())):
        lab.program("").run("up")
    assert lab.run("up").ok


@pytest.mark.parametrize("damage", ["truncated", "empty", "other"])
def test_damaged_checkpoint_is_refused_and_kept_and_its_backup_is_named(lab: Lab, damage: str) -> None:
    lab.up('Box("a")\n')
    lab.up('Box("a")\nBox("b")\n')
    file = lab.request.state_file
    good = file.read_text()
    bad = {"truncated": good[: len(good) // 2], "empty": "", "other": json.dumps({"version": 7})}[damage]
    file.write_text(bad)
    for verb in ("preview", "up", "refresh", "destroy"):
        with pytest.raises(StateError) as refused:
            lab.run(verb)
        assert str(file) in refused.value.message
        assert "dev.json.bak" in refused.value.remedy
    assert file.read_text() == bad
    backup = file.with_name("dev.json.bak")
    assert len(json.loads(backup.read_text())["deployment"]["resources"]) == 3
    file.write_text(good)
    assert lab.up().changes == Changes(same=3)


def test_incomplete_journal_line_is_ignored(lab: Lab) -> None:
    lab.up('Box("a")\n')
    before = lab.export()["resources"]
    journal = lab.request.state_file.with_name("dev.json.journal")
    from gpufleet.engine.embedded.checkpoint import load

    digest = load(lab.request.state_file)[1]
    journal.write_text(json.dumps({"kind": "base", "digest": digest}) + '\n{"kind": "step", "drop": [')
    assert lab.export()["resources"] == before
    assert lab.up().changes == Changes(same=2)
    assert not journal.exists()


def foreign_journal(lab: Lab, digest: str) -> Path:
    """A journal of another checkpoint that would drop everything."""
    journal = lab.request.state_file.with_name("dev.json.journal")
    base, drop = {"kind": "base", "digest": digest}, {"kind": "step", "drop": [0, 1, 2]}
    journal.write_text(f"{json.dumps(base)}\n{json.dumps(drop)}\n")
    return journal


def test_applied_journal_is_not_applied_again_after_a_crash(lab: Lab) -> None:
    from gpufleet.engine.embedded.checkpoint import backup_of, load

    lab.up('Box("a")\n')
    lab.up('Box("a")\nBox("b")\n')
    foreign_journal(lab, load(backup_of(lab.request.state_file))[1])
    assert lab.up().changes == Changes(same=3)


def test_journal_of_another_checkpoint_is_refused_and_kept(lab: Lab) -> None:
    lab.up('Box("a")\n')
    before = lab.request.state_file.read_text()
    journal = foreign_journal(lab, "of-another")
    reported = journal.read_text()
    for verb in ("preview", "up", "refresh", "destroy"):
        with pytest.raises(StateError, match="continues another checkpoint") as refused:
            lab.run(verb)
        assert "gpufleet state repair" in refused.value.remedy
    assert journal.read_text() == reported
    assert lab.request.state_file.read_text() == before


def test_full_disk_stops_the_run_and_keeps_the_recorded_steps(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpufleet.engine.embedded import journal

    lab.up('Box("a")\n')
    genuine = journal._write_all

    def full(descriptor: int, data: bytes) -> None:
        if b'"put"' in data and b"::b" in data:
            raise OSError(28, "No space left on device")
        genuine(descriptor, data)

    monkeypatch.setattr(journal, "_write_all", full)
    lab.program('Box("a")\nb = Box("b")\nBox("c", {"of": b.arn})\n')
    assert not lab.run("up").ok
    assert "No space left on device" in lab.errors()["b"]
    assert "c" not in lab.names()
    monkeypatch.setattr(journal, "_write_all", genuine)
    assert {"a", "b"} <= set(lab.names())


LIMITED = """
import pickle, resource, sys
from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.errors import GpufleetError
request = pickle.loads(open(sys.argv[1], "rb").read())
limit = int(sys.argv[3])

def watch(event):
    # Once the program runs: what is full then is the disk under the state.
    if getattr(event, "status", "") == "started" and event.name == "b":
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

try:
    result = getattr(EmbeddedEngine(), sys.argv[2])(request, watch)
    print(result.ok, *(failure.error for failure in result.failures), flush=True)
except GpufleetError as error:
    print("refused", error.message, "|", error.remedy, flush=True)
"""


def run_on_a_full_disk(lab: Lab, tmp_path: Path, limit: int) -> str:
    """An `up` that cannot write files beyond `limit` bytes from the start of `b` on; its output."""
    request = tmp_path / "request.pickle"
    lab.configure(config=dict(lab.request.config), providers=dict(lab.request.providers))
    request.write_bytes(pickle.dumps(lab.request))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(request), "up", str(limit)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.stdout


def test_disk_that_fills_up_during_a_run_loses_no_resource(lab: Lab, tmp_path: Path) -> None:
    lab.up('Box("a")\n')
    before = lab.request.state_file.read_bytes()
    lab.program('Box("a")\nb = Box("b")\nBox("c", {"of": b.arn})\n')
    # Space for the journal line that starts `b`, and not for the one that ends it.
    reported = run_on_a_full_disk(lab, tmp_path, limit=1)
    assert "the state cannot be written: File too large" in reported
    assert "ulimit -f" in reported
    assert lab.request.state_file.read_bytes() == before
    assert "c" not in lab.names()
    names = lab.names()
    result = lab.up()
    assert lab.names() == ["a", "b", "c"]
    assert len(lab.things()) == 3
    assert result.changes.create == 3 - len(names)
    assert lab.up().changes == Changes(same=4)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system to fill")
def test_full_file_system_is_reported_and_the_next_run_continues(lab: Lab) -> None:
    folder = lab.request.state_file.parent
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"this root may not mount: {mounted.stderr.decode().strip()}")
    try:
        lab.up('Box("a")\n')
        (folder / "ballast").write_bytes(b"x" * 490 * 1024)
        text = "\n".join(f'Box("b{number}", {{"size": {number}}})' for number in range(40))
        lab.program(f'Box("a")\n{text}\n')
        with pytest.raises(StateError, match="No space left on device") as full:
            lab.run("up")
        assert "free space on that disk" in full.value.remedy
        made = len(lab.things())
        assert 1 < made < 41
        (folder / "ballast").unlink()
        assert lab.up().changes.create == 41 - made
        assert len(lab.things()) == 41
        assert lab.up().changes.total == 0
    finally:
        subprocess.run(["umount", str(folder)], check=True)
