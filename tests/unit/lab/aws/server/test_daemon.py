from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.server.process import Files, Runtime, code_stamp, process_start


def test_ensure_starts_a_server_and_finds_it_the_next_time(root: Path, client: Any) -> None:
    first = daemon.ensure(root)
    assert first.url.startswith("http://127.0.0.1:")
    assert client(first, "sts").get_caller_identity()["Account"] == "123456789012"
    assert daemon.ensure(root) == first
    assert daemon.status(root) == first


def test_only_a_start_is_waited_for(root: Path) -> None:
    waits = []

    @contextlib.contextmanager
    def waited() -> Iterator[None]:
        waits.append(Files(root).runtime.exists())
        yield

    daemon.ensure(root, while_starting=waited)
    daemon.ensure(root, while_starting=waited)
    assert waits == [False]


def test_concurrent_starts_give_one_server(root: Path) -> None:
    with ThreadPoolExecutor(max_workers=4) as pool:
        endpoints = list(pool.map(lambda _: daemon.ensure(root), range(4)))
    assert len(set(endpoints)) == 1


def test_stop_ends_the_process_and_a_second_stop_finds_nothing(root: Path) -> None:
    endpoint = daemon.ensure(root)
    started = process_start(endpoint.pid)
    assert started
    assert daemon.stop(root) is True
    assert process_start(endpoint.pid) != started
    assert daemon.status(root) is None
    assert daemon.stop(root) is False
    assert not Files(root).runtime.exists()


def test_reused_pid_of_another_process_is_not_stopped(root: Path) -> None:
    root.mkdir()
    Runtime(os.getpid(), 1, "not when this process started").write(Files(root).runtime)
    assert daemon.status(root) is None
    assert daemon.stop(root) is False  # it would have ended this very test otherwise
    Runtime(os.getpid(), 1, "not when this process started").write(Files(root).runtime)
    assert daemon.ensure(root).pid != os.getpid()


def test_server_of_older_code_is_replaced_and_its_state_kept(root: Path, client: Any) -> None:
    endpoint = daemon.ensure(root)
    client(endpoint, "s3").create_bucket(Bucket="carried-over")
    runtime = Runtime.read(Files(root).runtime)
    assert runtime is not None
    assert runtime.code == code_stamp()
    replace(runtime, code="of another release").write(Files(root).runtime)
    newer = daemon.ensure(root)
    assert newer.pid != endpoint.pid
    assert process_start(endpoint.pid) != runtime.started
    buckets = client(newer, "s3").list_buckets()["Buckets"]
    assert [bucket["Name"] for bucket in buckets] == ["carried-over"]


def test_working_folder_of_the_caller_does_not_affect_the_server(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "moto").mkdir(parents=True)
    (elsewhere / "moto" / "__init__.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(elsewhere)
    assert daemon.ensure(root).pid > 0


def test_invalid_runtime_file_does_not_stop_a_start(root: Path) -> None:
    root.mkdir()
    Files(root).runtime.write_text("{broken")
    assert daemon.ensure(root).pid > 0


def test_next_server_uses_the_same_port(root: Path) -> None:
    first = daemon.ensure(root)
    daemon.stop(root)
    second = daemon.ensure(root)
    assert second.url == first.url
    assert second.pid != first.pid


def test_idle_server_stops_and_keeps_its_state(root: Path, client: Any) -> None:
    # As long as a client may take until it asks for the first time.
    endpoint = daemon.ensure(root, idle_s=3)
    client(endpoint, "s3").create_bucket(Bucket="kept-over-idleness")
    deadline = time.monotonic() + 15
    while process_start(endpoint.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process_start(endpoint.pid) == ""
    buckets = client(daemon.ensure(root), "s3").list_buckets()["Buckets"]
    assert [bucket["Name"] for bucket in buckets] == ["kept-over-idleness"]


def test_server_of_a_deleted_folder_ends_and_keeps_its_successor(root: Path, client: Any) -> None:
    orphan = daemon.ensure(root)
    started = process_start(orphan.pid)
    client(orphan, "s3").create_bucket(Bucket="of-the-deleted-checkout")
    shutil.rmtree(root)
    successor = daemon.ensure(root)
    assert successor.pid != orphan.pid
    deadline = time.monotonic() + 15
    while process_start(orphan.pid) == started and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process_start(orphan.pid) != started
    assert daemon.status(root) == successor
    daemon.stop(root)
    assert client(daemon.ensure(root), "s3").list_buckets()["Buckets"] == []


def test_copied_folder_has_its_own_server(root: Path, client: Any, tmp_path: Path) -> None:
    original = daemon.ensure(root)
    client(original, "s3").create_bucket(Bucket="of-both")
    daemon.stop(root)  # everything is saved
    original = daemon.ensure(root)
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    try:
        assert daemon.status(copy) is None and daemon.faults(copy) is None
        assert daemon.stop(copy) is False and daemon.status(root) == original
        shutil.copy2(Files(root).runtime, Files(copy).runtime)
        daemon.reset(copy)
        assert client(original, "s3").list_buckets()["Buckets"] != []

        shutil.copytree(root, copy, dirs_exist_ok=True)
        other = daemon.ensure(copy)
        assert (other.pid, other.url) != (original.pid, original.url)
        client(other, "s3").create_bucket(Bucket="of-the-copy")
        buckets = [bucket["Name"] for bucket in client(original, "s3").list_buckets()["Buckets"]]
        assert buckets == ["of-both"]
        assert (daemon.status(root), daemon.status(copy)) == (original, other)
    finally:
        daemon.stop(copy)


def test_server_of_a_moved_folder_is_replaced_and_its_state_kept(
    root: Path, client: Any, tmp_path: Path
) -> None:
    endpoint = daemon.ensure(root)
    started = process_start(endpoint.pid)
    client(endpoint, "s3").create_bucket(Bucket="moved")
    deadline = time.monotonic() + 15
    while not Files(root).snapshot.exists():  # it is written soon after a change
        assert time.monotonic() < deadline
        time.sleep(0.05)
    moved = tmp_path / "moved"
    root.rename(moved)
    try:
        there = daemon.ensure(moved)
        assert process_start(endpoint.pid) != started
        buckets = client(there, "s3").list_buckets()["Buckets"]
        assert [bucket["Name"] for bucket in buckets] == ["moved"]
    finally:
        daemon.stop(moved)


def test_link_to_the_folder_uses_the_same_server(root: Path, tmp_path: Path) -> None:
    endpoint = daemon.ensure(root)
    (tmp_path / "link").symlink_to(root)
    assert daemon.ensure(tmp_path / "link") == endpoint


def test_server_listens_only_on_loopback(root: Path) -> None:
    port = int(daemon.ensure(root).url.rpartition(":")[2])
    listening = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                listening.append(local.rpartition(":")[0])
    assert listening == ["0100007F"]


def test_sandbox_files_are_readable_only_by_their_owner(root: Path, client: Any) -> None:
    client(daemon.ensure(root), "s3").create_bucket(Bucket="private")
    daemon.stop(root)
    assert root.stat().st_mode & 0o077 == 0
    assert Files(root).snapshot.stat().st_mode & 0o077 == 0
