"""Files have the complete old or the complete new contents after any interrupted write."""

from __future__ import annotations

import errno
import os
import resource
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpufleet.catalog import load_catalog
from gpufleet.catalog.store import INSTANCES
from gpufleet.cli import catalog_refresh
from gpufleet.cli.run_log import Durations
from gpufleet.engine.embedded import checkpoint, repair
from gpufleet.errors import GpufleetError, InputError
from gpufleet.files import put, user_cache, write_atomically
from gpufleet.lab.aws.server.process import Runtime
from gpufleet.lab.aws.server.saver import Saver
from gpufleet.policy.report import write_report
from gpufleet.racks.configure.record import LastRun, RunFolder
from gpufleet.racks.configure.vault import write_vault
from gpufleet.racks.preflight.expectations import Expectations, write_expectations
from gpufleet.resources.stack import Stack
from gpufleet.spec.init import write_environment

SECRETS = {1: {"munge_key": "a" * 60}, 2: {"munge_key": "b" * 60}}
HALF = 16
"""Bytes that still fit on the disk: fewer than each of the files has."""


def _state(folder: Path, number: int) -> Path:
    urn = f"urn:pulumi:dev::gpufleet::aws:sns/topic:Topic::topic-{number}"
    checkpoint.save(folder / "dev.json", [{"urn": urn, "type": "aws:sns/topic:Topic"}], [], "")
    return folder / "dev.json"


def _repaired_state(folder: Path, number: int) -> Path:
    repair.replace_damaged(folder / "dev.json", f'{{"version": 3, "deployment": {number}}}'.encode())
    return folder / "dev.json"


def _text(folder: Path, number: int) -> Path:
    write_atomically(folder / "verdict.json", f'{{"verdict": "pass, with some text", "n": {number}}}')
    return folder / "verdict.json"


def _catalog(folder: Path, number: int) -> Path:
    p5 = load_catalog().instance("p5.48xlarge")
    catalog_refresh._write(folder, [p5.model_copy(update={"vcpus": 100 + number})], [], [])
    return folder / INSTANCES


def _vault(folder: Path, number: int) -> Path:
    write_vault(folder / "secrets.yaml", "password", SECRETS[number])
    return folder / "secrets.yaml"


def _last_run(folder: Path, number: int) -> Path:
    runs = RunFolder(folder, "dev")
    runs.path.mkdir(parents=True, exist_ok=True)
    runs.save(LastRun(f"run-{number}", complete=True, hosts={"gpu01": "done"}))
    return runs.last_file


def _policy_report(folder: Path, number: int) -> Path:
    write_report(folder / "report.json", Stack(()), ())
    if number == 1:
        # Of another run: a report has no number that could differ.
        (folder / "report.json").write_text('{"resources": [], "found": [], "of": "an earlier run"}')
    return folder / "report.json"


def _expectations(folder: Path, number: int) -> Path:
    expected = {"gpu01": Expectations(peers=f"pod-{number}", gpu_node=False)}
    write_expectations(expected, folder / "expected.json")
    return folder / "expected.json"


def _running_server(folder: Path, number: int) -> Path:
    Runtime(number, 4566, "started at some time").write(folder / "server.json")
    return folder / "server.json"


def _account(folder: Path, number: int) -> Path:
    Saver(folder / "state.pickle", lambda: True).save()
    if number == 1:
        (folder / "state.pickle").write_bytes(b"the account of an earlier run of the server")
    return folder / "state.pickle"


WRITERS = (
    _state,
    _repaired_state,
    _text,
    _catalog,
    _vault,
    _last_run,
    _policy_report,
    _expectations,
    _running_server,
    _account,
)
Writer = Callable[[Path, int], Path]
every_writer = pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__.strip("_"))


@contextmanager
def a_disk_that_fills_up() -> Iterator[None]:
    """A write ends after `HALF` bytes, by the operating system's own doing."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def a_disk_that_refuses(number: int) -> Iterator[None]:
    """The contents are written, and then the disk reports a failure."""

    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        yield


FAULTS: dict[str, Callable[[], Any]] = {
    "half-way": a_disk_that_fills_up,
    "no space": lambda: a_disk_that_refuses(errno.ENOSPC),
    "disk fails": lambda: a_disk_that_refuses(errno.EIO),
}


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@every_writer
@pytest.mark.parametrize("fault", FAULTS)
def test_failed_write_keeps_the_old_file_and_leaves_nothing_else(
    tmp_path: Path, write: Writer, fault: str
) -> None:
    path = write(tmp_path, 1)
    old, names = path.read_bytes(), names_in(path.parent)
    with FAULTS[fault](), pytest.raises((GpufleetError, OSError)):
        write(tmp_path, 2)
    assert path.read_bytes() == old
    assert names_in(path.parent) - {f"{path.name}.tmp"} == names
    write(tmp_path, 2)
    assert path.read_bytes() != old


@every_writer
def test_process_killed_during_a_write_keeps_the_old_file(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path, 1)
    old = path.read_bytes()
    child = os.fork()
    if child == 0:
        # The kernel ends the process at the byte that is one too many.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, resource.RLIM_INFINITY))
        try:
            write(tmp_path, 2)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGXFSZ
    assert path.read_bytes() == old
    write(tmp_path, 2)
    assert path.read_bytes() != old


@pytest.mark.parametrize("fault", FAULTS)
def test_new_environment_that_cannot_be_written_leaves_no_files(tmp_path: Path, fault: str) -> None:
    with FAULTS[fault](), pytest.raises(InputError, match="cannot be written"):
        write_environment(tmp_path, "fresh", "sandbox", "version: 1\nname: a fleet of some bytes\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    write_environment(tmp_path, "fresh", "sandbox", "version: 1\nname: a fleet of some bytes\n")


@pytest.mark.parametrize("fault", FAULTS)
def test_unwritable_durations_keep_the_previous_ones(tmp_path: Path, fault: str) -> None:
    kept = Durations(tmp_path / "durations.json")
    kept.keep("up dev", 10, 20.0)
    with FAULTS[fault]():
        kept.keep("up dev", 11, 30.0)
    assert (kept.expected("up dev").steps, kept.expected("up dev").seconds) == (10, 20.0)
    assert [path.name for path in tmp_path.iterdir()] == ["durations.json"]


def test_remedy_for_a_full_disk_is_to_free_space(tmp_path: Path) -> None:
    with a_disk_that_refuses(errno.ENOSPC), pytest.raises(InputError) as refused:
        write_atomically(tmp_path / "fleet.html", "<!doctype html>")
    assert refused.value.message == f"{tmp_path}/fleet.html cannot be written: No space left on device"
    assert refused.value.remedy == "free space on that disk and run again: the old file is unchanged"


def test_new_file_never_overwrites_another(tmp_path: Path) -> None:
    put(tmp_path / "new", b"first", over=False)
    with pytest.raises(FileExistsError):
        put(tmp_path / "new", b"second", over=False)
    assert (tmp_path / "new").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_device_is_written_to_and_not_replaced() -> None:
    reader, writer = os.pipe()
    try:
        write_atomically(Path(f"/dev/fd/{writer}"), "an inventory")
        assert os.read(reader, 100) == b"an inventory"
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(
    ("named", "folder"), [("/var/cache/me", "/var/cache/me"), ("", "~/.cache"), ("relative", "~/.cache")]
)
def test_user_cache_follows_the_variable_only_if_it_is_absolute(
    named: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert user_cache("rack") == Path(folder).expanduser() / "gpufleet" / "rack"


def test_file_in_the_memory_folder_of_dev_is_replaced_whole() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "plan.json")
        write_atomically(path, "old")
        before = path.stat().st_ino
        write_atomically(path, "new")
        assert (path.read_text(), path.stat().st_ino != before) == ("new", True)
