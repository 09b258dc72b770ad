"""Timer programs of control plane members: snapshots of etcd, renewal of certificates."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path

import pytest

FILES = Path(__file__).resolve().parents[3] / "ansible" / "roles" / "kubernetes_control_plane" / "files"

CRICTL = """\
#!/bin/sh
echo "crictl $*" >>{folder}/called
case "$*" in
  ps*) [ -e {folder}/down ] || echo c0ffee;;
  *"snapshot save"*)
    for last in "$@"; do :; done
    printf snapshot-of-etcd >"$last"
    if [ -e {folder}/full ]; then echo "write $last: no space left on device" >&2; exit 1; fi;;
  *"snapshot status"*) if [ -e {folder}/empty ]; then echo '{{"totalKey": 0}}'; else
    echo '{{"totalKey": 900, "revision": 41, "version": "3.6.0"}}'; fi;;
  *pods*) cat {folder}/pods 2>/dev/null; echo >>{folder}/next; echo "new$(wc -l <{folder}/next)";;
  stopp*|rmp*) if [ -e {folder}/stuck ]; then exit 1; fi;;
esac
"""
KUBEADM = """\
#!/bin/sh
echo "kubeadm $*" >>{folder}/called
case "$*" in
  *check-expiration*) cat {folder}/certificates.json;;
esac
"""


class Member:
    """A member's folders, with stand-ins for containerd and kubeadm."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.backups = folder / "backups"
        for name in ("data/member/snap", "pki/etcd", "bin"):
            (folder / name).mkdir(parents=True)
        (folder / "data/member/snap/db").write_bytes(b"x" * 4096)
        for name in ("ca.crt", "ca.key", "etcd/ca.key", "apiserver.key"):
            (folder / "pki" / name).write_text(f"{name} of the cluster")
        for name, text in (("crictl", CRICTL), ("kubeadm", KUBEADM)):
            path = folder / "bin" / name
            path.write_text(text.format(folder=folder))
            path.chmod(0o755)

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, FILES / program, *words],
            env={"PATH": f"{self.folder}/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def take(self, keep: int = 28) -> subprocess.CompletedProcess[str]:
        places = ["--data", f"{self.folder}/data", "--pki", f"{self.folder}/pki"]
        places += ["--textfiles", f"{self.folder}/textfiles"]
        return self.run("etcd-backup", "take", str(self.backups), "--keep", str(keep), *places)

    def kept(self) -> list[str]:
        return sorted(path.name for path in self.backups.iterdir()) if self.backups.is_dir() else []

    def older(self, *names: str) -> None:
        """Snapshots of earlier days."""
        for name in names:
            (self.backups / name).mkdir(parents=True)
            (self.backups / name / "about.json").write_text('{"taken": "2026-01-01T00:00:00Z"}')

    def certificates(self, **days: float) -> None:
        listed = [{"name": name, "residualTime": left * 86400} for name, left in days.items()]
        (self.folder / "certificates.json").write_text(json.dumps({"certificates": listed}))

    def called(self) -> list[str]:
        path = self.folder / "called"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def member(tmp_path: Path) -> Member:
    return Member(tmp_path)


def test_snapshot_is_complete_private_and_has_the_authorities(member: Member) -> None:
    done = member.take()
    assert done.returncode == 0, done.stderr
    (name,) = member.kept()
    folder = member.backups / name
    assert (folder / "snapshot.db").read_text() == "snapshot-of-etcd"
    assert {path.stat().st_mode & 0o777 for path in (folder / "snapshot.db", folder / "pki.tar")} == {0o600}
    assert member.backups.stat().st_mode & 0o777 == folder.stat().st_mode & 0o777 == 0o700
    listed = subprocess.run(
        ["tar", "tf", folder / "pki.tar"], capture_output=True, text=True, check=True
    ).stdout
    assert listed.split() == ["ca.crt", "ca.key", "etcd/ca.key"]  # kubeadm creates a member's own keys
    shown = json.loads(member.run("etcd-backup", "show", str(member.backups)).stdout)
    assert [item["keys"] for item in shown] == [900]
    assert not list((member.folder / "data").glob("*.snapshot"))


def test_only_a_finished_snapshot_is_reported_to_prometheus(member: Member) -> None:
    folder = member.folder / "textfiles"
    folder.mkdir()
    (member.folder / "down").touch()
    assert member.take().returncode == 1
    assert not list(folder.iterdir())
    (member.folder / "down").unlink()
    assert member.take().returncode == 0
    (metric,) = folder.iterdir()
    assert metric.name.endswith(".prom") and metric.stat().st_mode & 0o777 == 0o644
    name, value = metric.read_text().splitlines()[1].split()
    assert name == 'gpufleet_backup_last_success_timestamp_seconds{backup="etcd"}'
    (taken,) = json.loads(member.run("etcd-backup", "show", str(member.backups)).stdout)
    moment = dt.datetime.strptime(taken["taken"], "%Y-%m-%dT%H:%M:%S%z")
    assert int(value) == moment.timestamp()


def test_oldest_snapshots_are_removed_above_the_limit(member: Member) -> None:
    member.older("etcd-20260101T000000Z", "etcd-20260102T000000Z", "etcd-20260103T000000Z")
    assert member.take(keep=2).returncode == 0
    assert len(member.kept()) == 2
    assert member.kept()[0] == "etcd-20260103T000000Z"


@pytest.mark.parametrize(
    ("fault", "says"),
    [("down", "etcd does not run here"), ("full", "no space left"), ("empty", "holds no keys")],
)
def test_failed_snapshot_keeps_only_the_older_ones(member: Member, fault: str, says: str) -> None:
    member.older("etcd-20260101T000000Z")
    (member.folder / fault).touch()
    done = member.take(keep=1)
    assert done.returncode == 1
    assert says in done.stderr and "Traceback" not in done.stderr
    assert member.kept() == ["etcd-20260101T000000Z"]
    assert not list((member.folder / "data").glob("*.snapshot"))


def test_folder_without_room_is_refused_before_a_snapshot(member: Member) -> None:
    member.older("etcd-20260101T000000Z")
    with (member.folder / "data/member/snap/db").open("r+b") as stream:
        stream.truncate(1 << 43)  # a sparse database of 8 TiB
    done = member.take()
    assert done.returncode == 1
    assert "MiB free" in done.stderr and "are unchanged" in done.stderr
    assert member.called() == []
    assert member.kept() == ["etcd-20260101T000000Z"]


def test_leftovers_of_an_interrupted_snapshot_are_removed_by_the_next(member: Member) -> None:
    (member.backups / ".part-123").mkdir(parents=True)
    (member.backups / "etcd-20260101T000000Z").mkdir()  # without about.json it is not a snapshot
    assert member.take(keep=1).returncode == 0
    assert ".part-123" not in member.kept()
    shown = json.loads(member.run("etcd-backup", "show", str(member.backups)).stdout)
    assert len(shown) == 1


def test_expiring_certificates_are_renewed_and_components_restart_in_order(member: Member) -> None:
    started = str(member.folder / "started")
    member.certificates(apiserver=300, scheduler=61)
    assert "nothing ends soon" in member.run("kubernetes-certificates", "renew", "--started", started).stdout
    assert not any("renew" in line for line in member.called())
    member.certificates(apiserver=300, scheduler=59)
    done = member.run("kubernetes-certificates", "renew", "--started", started)
    assert done.returncode == 0, done.stderr
    assert member.called().count("kubeadm certs renew all") == 1
    order = [line.rpartition("=")[2] for line in member.called() if "pods" in line]
    assert list(dict.fromkeys(order)) == [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ]
    assert not Path(started).exists()
    shown = json.loads(member.run("kubernetes-certificates", "show").stdout)
    assert shown == {"apiserver": 300, "scheduler": 59}


def test_interrupted_restarts_continue_without_a_second_renewal(member: Member) -> None:
    started = member.folder / "started"
    member.certificates(apiserver=10)
    (member.folder / "stuck").touch()
    (member.folder / "pods").write_text("old\n")
    done = member.run("kubernetes-certificates", "renew", "--started", str(started))
    assert done.returncode == 1 and "crictl stopp" in done.stderr
    assert started.read_text().split()[0] == "etcd"
    (member.folder / "stuck").unlink()
    (member.folder / "pods").unlink()
    member.certificates(apiserver=365)
    assert member.run("kubernetes-certificates", "renew", "--started", str(started)).returncode == 0
    assert member.called().count("kubeadm certs renew all") == 1
    assert not started.exists()
