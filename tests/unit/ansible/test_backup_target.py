"""Copies of backups on S3 (moto's server) and over ssh (sshd, rrsync): complete, encrypted, limited."""

from __future__ import annotations

import base64
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.kube.stores import BUCKET, ROLE, SECRET, Target, bucket_client, etcd_source, s3_server, ssh_server
from tests.loading import load_source
from tests.rack.site import ArgumentWatcher

pytestmark = [pytest.mark.daemon, pytest.mark.xdist_group("etcd")]
FIRST, SECOND, THIRD = (f"2026010{day}T000000Z" for day in (1, 2, 3))
NAMES = {stamp: f"etcd-dc1-ctl01-{stamp}" for stamp in (FIRST, SECOND, THIRD)}
PLAIN = b"a secret of the cluster"


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, Any]]:
    """The store of a bucket that the tests share."""
    with s3_server() as store:
        yield store


@pytest.fixture
def s3(bucket: dict[str, Any]) -> dict[str, Any]:
    """A prefix of its own in the bucket."""
    return {**bucket, "url": f"s3://{BUCKET}/{secrets.token_hex(8)}"}


@pytest.fixture(params=["s3", "rsync"])
def target(request: pytest.FixtureRequest, s3: dict[str, Any], tmp_path: Path) -> Iterator[Target]:
    """A host with a folder of backups, and its store."""
    (tmp_path / "backups").mkdir()
    with ExitStack() as stack:
        store, key = s3, ""
        if request.param == "rsync":
            store, key = stack.enter_context(ssh_server(tmp_path / "ssh"))
        made = Target(tmp_path / "host", store, [etcd_source(tmp_path / "backups")], keep=2)
        set_up_ssh(made, key)
        yield made


def set_up_ssh(target: Target, key: str) -> None:
    if key:
        target.write_key("ssh-key", base64.b64decode(key).decode())
        known = f"[127.0.0.1]:{target.store['port']} {target.store['host_key']}\n"
        target.write_key("known_hosts", known)


def back_up(target: Target, *stamps: str) -> Path:
    """Complete backups of these times."""
    place = target.folder.parent / "backups"
    for stamp in stamps:
        folder = place / f"etcd-{stamp}"
        folder.mkdir()
        for name in ("snapshot.db", "pki.tar", "about.json"):
            (folder / name).write_bytes(PLAIN + f" {name} of {stamp}".encode())
    return place


def stored(target: Target) -> dict[str, bytes]:
    """What the store has, by name."""
    if target.store["kind"] == "rsync":
        return {path.name: path.read_bytes() for path in (target.folder.parent / "ssh" / "copies").iterdir()}
    client = bucket_client(target.store["endpoint"])
    found = client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix(target.store)}/").get("Contents", [])
    keys = [item["Key"] for item in found]
    return {key.partition("/")[2]: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


def prefix(store: dict[str, Any]) -> str:
    """The prefix of a store in its bucket."""
    return str(store["url"]).rpartition("/")[2]


def overwrite(target: Target, name: str, content: bytes) -> None:
    if target.store["kind"] == "rsync":
        (target.folder.parent / "ssh" / "copies" / name).write_bytes(content)
    else:
        key = f"{prefix(target.store)}/{name}"
        bucket_client(target.store["endpoint"]).put_object(Bucket=BUCKET, Key=key, Body=content)


@pytest.mark.fresh
def test_copy_is_encrypted_and_comes_back_only_with_the_key_of_the_vault(
    target: Target, tmp_path: Path
) -> None:
    back_up(target, FIRST)
    watcher = ArgumentWatcher([SECRET, target.identity])
    with watcher:
        assert NAMES[FIRST] in target.run("send", "etcd")
        ((name, content),) = stored(target).items()
        assert name == f"{NAMES[FIRST]}.tar.age"
        assert content.startswith(b"age-encryption.org/v1") and PLAIN not in content
        # No secret of the host decrypts it.
        host = b"".join(path.read_bytes() for path in target.config.iterdir())
        assert b"AGE-SECRET-KEY" not in host
        place = tmp_path / "restored"
        assert target.run("fetch", NAMES[FIRST], str(place), stdin=target.identity) == f"{place}\n"
    assert not watcher.found
    kept = target.folder.parent / "backups" / f"etcd-{FIRST}"
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {
        path.name: path.read_bytes() for path in kept.iterdir()
    }
    assert place.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}

    other = Target(tmp_path / "other", target.store, []).identity
    assert "cannot be decrypted" in target.run(
        "fetch", NAMES[FIRST], str(tmp_path / "no"), stdin=other, code=1
    )
    for broken in (content[:-20], content[:300] + b"X" + content[301:]):
        overwrite(target, name, broken)
        reported = target.run("fetch", NAMES[FIRST], str(tmp_path / "no"), stdin=target.identity, code=1)
        assert "cannot be decrypted" in reported
    assert "no copy etcd-dc1-ctl09" in target.run(
        "fetch", f"etcd-dc1-ctl09-{FIRST}", str(tmp_path / "no"), code=1
    )
    assert not [path.name for path in tmp_path.iterdir() if "no" in path.name]


def test_backups_of_an_outage_are_copied_later_and_the_oldest_copies_go(target: Target) -> None:
    back_up(target, FIRST)
    overwrite(target, f"etcd-dc1-ctl02-{FIRST}.tar.age", b"of another member")
    overwrite(target, "notes.txt", b"of others")
    target.run("send", "etcd")
    assert target.run("send", "etcd") == "the target has all\n"
    success = target.metrics()["last_success_timestamp_seconds"]
    assert time.time() - 120 < success <= time.time()
    # The store does not let this host in.
    place = back_up(target, SECOND, THIRD)
    before = sorted(str(path) for path in place.rglob("*"))
    kept = target.config / ("recipient" if target.store["kind"] == "s3" else "known_hosts")
    text = kept.read_text()
    kept.write_text("age1wrong\n" if target.store["kind"] == "s3" else text[:-9] + "AAAAAAAA\n")
    reported = target.run("send", "etcd", code=1)
    assert "could not encrypt" in reported or "Host key verification failed" in reported
    assert target.metrics() == {"last_success_timestamp_seconds": success, "failed": 1}
    assert sorted(str(path) for path in place.rglob("*") if path.name != ".send.lock") == [
        path for path in before if not path.endswith(".send.lock")
    ]
    kept.write_text(text)
    target.run("send", "etcd")
    assert target.metrics()["failed"] == 0
    assert target.listed() == [f"etcd-dc1-ctl02-{FIRST}", NAMES[SECOND], NAMES[THIRD]]
    assert "notes.txt" in stored(target)


def test_new_target_begins_with_the_newest_backup_that_is_complete(target: Target) -> None:
    place = back_up(target, FIRST, SECOND, THIRD)
    (place / f"etcd-{THIRD}" / "about.json").unlink()
    target.run("send", "etcd")
    assert target.listed() == [NAMES[SECOND]]


# Sends, and waits where the copy is on its way.
WAITING = """\
import runpy, sys, time
sys.path.insert(0, sys.argv[1])
import backup_stores
for store in (backup_stores.S3Store, backup_stores.RsyncStore):
    def put(self, path):
        print("waits", flush=True)
        time.sleep(600)
    store.put = put
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("ended", [signal.SIGTERM, signal.SIGKILL])
def test_ended_copy_leaves_nothing_after_the_next_run(target: Target, ended: signal.Signals) -> None:
    place = back_up(target, FIRST)
    words = [sys.executable, "-c", WAITING, str(ROLE), *target.program[1:], "send", "etcd"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "waits\n"
        assert "are being sent already" in target.run("send", "etcd", code=1)
        process.send_signal(ended)
    staged = [path.name for path in place.iterdir() if path.name == ".send"]
    assert len(staged) == (1 if ended == signal.SIGKILL else 0)
    target.run("send", "etcd")
    assert sorted(path.name for path in place.iterdir()) == [".send.lock", f"etcd-{FIRST}"]
    assert target.listed() == [NAMES[FIRST]]


@pytest.mark.parametrize(("size", "leave_percent"), [(1 << 43, 10), (1, 100)])
def test_backup_without_room_for_its_copy_is_refused(target: Target, size: int, leave_percent: int) -> None:
    place = back_up(target, FIRST)
    with (place / f"etcd-{FIRST}" / "snapshot.db").open("r+b") as stream:
        stream.truncate(size)  # of a sparse file
    target.leave_percent = leave_percent
    reported = target.run("send", "etcd", code=1)
    assert "must leave" in reported and f"({leave_percent} %)" in reported
    assert stored(target) == {}


def stores() -> Any:
    """The module of the stores in this process."""
    return load_source(ROLE / "backup_stores.py", "backup_stores")


def test_large_file_is_sent_to_s3_in_parts_and_what_a_killed_upload_left_is_removed(
    s3: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = stores()
    monkeypatch.setattr(module, "PART", 5 << 20)
    large = tmp_path / "large"
    large.write_bytes(os.urandom(12 << 20))
    target = Target(tmp_path / "host", s3, [])
    client = bucket_client(s3["endpoint"])
    place = module.S3Store(s3, target.config)
    place.put(large)
    assert client.head_object(Bucket=BUCKET, Key=f"{prefix(s3)}/large")["ETag"].endswith('-3"')
    place.get("large", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == large.read_bytes()
    for name in ("mine", "theirs"):
        client.create_multipart_upload(Bucket=BUCKET, Key=f"{prefix(s3)}/{name}")
    place.clean(lambda name: name == "mine")
    left = client.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    assert [item["Key"] for item in left] == [f"{prefix(s3)}/theirs"]


@pytest.mark.parametrize("change", [lambda body: body[:-1] + b"X", lambda body: body[:-1]])
def test_copy_that_changes_on_its_way_to_s3_is_noticed(
    s3: dict[str, Any], tmp_path: Path, change: Any
) -> None:
    module = stores()
    small = tmp_path / "small"
    small.write_bytes(b"content")
    place = module.S3Store(s3, Target(tmp_path / "host", s3, []).config)
    ask = place._ask

    def on_its_way(operation: str, **arguments: Any) -> Any:
        if operation == "put_object":
            arguments = {**arguments, "Body": change(arguments["Body"])}
            arguments.pop("ContentMD5")  # S3 itself would refuse it; other stores do not compare
        return ask(operation, **arguments)

    place._ask = on_its_way
    with pytest.raises(module.StoreError, match="is not what was sent"):
        place.put(small)

    def without_md5(operation: str, **arguments: Any) -> Any:
        answer = ask(operation, **arguments)
        return {**answer, "ETag": '"0a1b"'} if operation == "head_object" else answer

    # As of objects that KMS encrypts: the copy is read back.
    place._ask = without_md5
    place.put(small)


def test_copy_that_changes_on_its_way_over_rsync_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = stores()
    small = tmp_path / "small"
    small.write_bytes(b"content")
    with ssh_server(tmp_path / "ssh") as (store, key):
        target = Target(tmp_path / "host", store, [])
        set_up_ssh(target, key)
        place = module.RsyncStore(store, target.config)
        place.put(small)
        run = module.run

        def on_its_way(*command: str) -> str:
            reported: str = run(*command)
            copied = tmp_path / "ssh" / "copies" / "small"
            times = copied.stat()
            copied.write_bytes(b"cXntent")
            os.utime(copied, ns=(times.st_atime_ns, times.st_mtime_ns))
            return reported

        monkeypatch.setattr(module, "run", on_its_way)
        with pytest.raises(module.StoreError, match="checksum differs"):
            place.put(small)
