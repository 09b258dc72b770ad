"""Snapshots of a real etcd by the role's program: complete or absent, and never at etcd's expense."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.members import FILES, PATH, Kubelet, Member, make_members

pytestmark = pytest.mark.xdist_group("etcd")
OLD = ("etcd-20260101T000000Z", "etcd-20260102T000000Z", "etcd-20260103T000000Z")


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """The only member of a cluster, with some MiB in its etcd."""
    (made,) = make_members(tmp_path_factory.mktemp("member"), ["ctl01"])
    kubelet = Kubelet([made])
    kubelet.start()
    for number in range(8):
        made.put(**{f"key{number}": "x" * 100_000})
    yield made
    kubelet.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def older(folder: Path, *names: str) -> None:
    """Snapshots of earlier days."""
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "about.json").write_text('{"taken": "2026-01-01T00:00:00Z"}')


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def reported(done: subprocess.CompletedProcess[str]) -> str:
    """The refusal in one line."""
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    return " ".join(done.stderr.split())


def shown(member: Member, folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(member.run("etcd-backup", "show", str(folder)).stdout)
    return found


def test_snapshot_is_complete_and_private_and_nothing_is_written_beside_the_data(
    member: Member, folder: Path
) -> None:
    data = sorted(path.name for path in member.data.iterdir())
    made = member.take(folder)
    assert {path.stat().st_mode & 0o777 for path in made.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == made.stat().st_mode & 0o777 == 0o700
    listed = subprocess.run(["tar", "tf", made / "pki.tar"], capture_output=True, text=True, check=True)
    # kubeadm creates a member's own keys.
    assert listed.stdout.split() == ["ca.crt", "ca.key", "sa.key", "etcd/ca.crt", "etcd/ca.key"]
    (about,) = shown(member, folder)
    words = ["etcdctl", "snapshot", "status", str(made / "snapshot.db"), "--write-out=json"]
    env = {"PATH": PATH, "ETCDCTL_API": "3"}
    status = json.loads(subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout)
    assert about["revision"] == status["revision"] == member.revision
    assert about["keys"] == len(member.values()) == 8
    assert about["bytes"] > 800_000
    assert sorted(path.name for path in member.data.iterdir()) == data
    assert member.called("snapshot save") == []


def test_only_a_finished_snapshot_is_reported_to_prometheus(member: Member, folder: Path) -> None:
    texts = member.folder / "textfiles"
    texts.mkdir()
    folder.mkdir()
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another snapshot is being taken" in reported(member.back_up(folder))
    assert not list(texts.iterdir())
    assert member.back_up(folder).returncode == 0
    (metric,) = texts.iterdir()
    assert metric.name.endswith(".prom") and metric.stat().st_mode & 0o777 == 0o644
    name, value = metric.read_text().splitlines()[1].split()
    assert name == 'gpufleet_backup_last_success_timestamp_seconds{backup="etcd"}'
    moment = dt.datetime.strptime(shown(member, folder)[0]["taken"], "%Y-%m-%dT%H:%M:%S%z")
    assert int(value) == moment.timestamp()


def test_oldest_snapshots_are_removed_above_the_limit(member: Member, folder: Path) -> None:
    older(folder, *OLD)
    assert member.back_up(folder, "--keep", "2").returncode == 0
    assert len(kept(folder)) == 2
    assert kept(folder)[0] == OLD[-1]


def test_snapshot_leaves_a_part_of_the_file_system_of_the_data_free(member: Member, folder: Path) -> None:
    older(folder, OLD[0])
    # The same file system: all of it is needed, and some is in use.
    refused = reported(member.back_up(folder, "--keep", "1", "--leave-percent", "100"))
    assert "must leave" in refused and f"the file system of etcd's data ({member.data})" in refused
    assert "kubernetes.backup.folder" in refused
    assert kept(folder) == [OLD[0]]
    # Another file system is etcd's own matter only as far as the snapshot fits.
    data = Path(member.data).stat().st_dev
    others = (Path(each) for each in ("/dev/shm", "/var/tmp") if Path(each).stat().st_dev != data)
    with tempfile.TemporaryDirectory(dir=next(others)) as elsewhere:
        assert member.back_up(Path(elsewhere), "--leave-percent", "100").returncode == 0


def test_member_without_etcd_is_refused_with_the_older_snapshots_kept(
    member: Member, folder: Path, tmp_path: Path
) -> None:
    (stopped,) = make_members(tmp_path / "stopped", ["ctl09"])
    older(folder, OLD[0])
    assert "does not answer" in reported(stopped.back_up(folder, "--keep", "1"))
    (stopped.manifests / "etcd.yaml").unlink()
    assert "no member of a control plane" in reported(stopped.back_up(folder, "--keep", "1"))
    assert kept(folder) == [OLD[0]]


# etcd that sends half of a snapshot, or one with a changed byte, or waits in the middle.
SENDER = """\
import base64, hashlib, http.server, json, ssl, sys, time
fault, port, keys = sys.argv[1], int(sys.argv[2]), sys.argv[3]
data = b"database" * 100_000
class Etcd(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.end_headers()
        if "snapshot" not in self.path:
            answer = {"dbSize": str(len(data)), "count": "9", "version": "3.6.0", "header": {"revision": "4"}}
            self.wfile.write(json.dumps(answer).encode())
            return
        digest = hashlib.sha256(data).digest()
        half = data[:len(data) // 2]
        self.send(half)
        if fault == "waits":
            self.wfile.flush(); time.sleep(600)
        if fault != "half":
            self.send(data[len(half):-1] + (b"X" if fault == "changed" else data[-1:]))
            self.send(digest)
    def send(self, blob):
        line = json.dumps({"result": {"blob": base64.b64encode(blob).decode()}})
        self.wfile.write(line.encode() + b"\\n")
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Etcd)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(keys + "/server.crt", keys + "/server.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Any]:
    """A member whose etcd sends faulty snapshots; called with the fault."""
    (made,) = make_members(tmp_path / "sender", ["ctl01"])
    running: list[subprocess.Popen[bytes]] = []

    def start(fault: str) -> Member:
        words = [sys.executable, "-c", SENDER, fault, made.client.rpartition(":")[2], f"{made.pki}/etcd"]
        running.append(subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words]))
        deadline = time.monotonic() + 120
        port = f":{made.client.rpartition(':')[2]}"
        while port not in subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return made

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.parametrize("fault", ["half", "changed"])
def test_snapshot_that_is_cut_short_or_changed_on_its_way_is_not_kept(
    sender: Any, folder: Path, fault: str
) -> None:
    older(folder, OLD[0])
    assert "is not complete" in reported(sender(fault).back_up(folder, "--keep", "1"))
    assert kept(folder) == [OLD[0]]


@pytest.mark.parametrize("ended", [signal.SIGTERM, signal.SIGKILL])
def test_ended_snapshot_leaves_no_file_after_the_next_run(
    member: Member, sender: Any, folder: Path, ended: signal.Signals
) -> None:
    older(folder, OLD[0])
    waiting = sender("waits")
    words = ["take", str(folder), "--kubernetes", str(waiting.kubernetes), "--leave-percent", "0"]
    process = subprocess.Popen([sys.executable, FILES / "etcd-backup", *words], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not any(path.stat().st_size > 0 for path in folder.glob(".part-*/snapshot.db")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(ended)
    code = process.wait(30)
    if ended == signal.SIGTERM:
        assert code == 128 + signal.SIGTERM
        assert kept(folder) == [OLD[0]]
    # An earlier release wrote beside the data first.
    (member.data / "gpufleet-123.snapshot.part").write_bytes(b"x")
    assert member.back_up(folder, "--keep", "5").returncode == 0
    assert [name for name in kept(folder) if name.startswith(".")] == []
    assert len(kept(folder)) == 2
    assert not list(member.data.glob("gpufleet-*"))
