"""Renewal of certificates with real etcd: one member at a time, and only in a healthy cluster."""

from __future__ import annotations

import json
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.kube.members import FILES, PATH, Kubelet, Member, make_members

pytestmark = pytest.mark.xdist_group("etcd")
NAMES = ("ctl01", "ctl02", "ctl03")
# kubeadm as far as it is asked: it reads the end of the certificates, and issues new ones.
KUBEADM = """\
#!{python}
import json, shutil, subprocess, sys, time
from pathlib import Path
folder, pki = Path("{folder}"), Path("{pki}")
with (folder / "kubeadm.log").open("a") as log:
    print(*sys.argv[1:], time.time(), file=log)
if sys.argv[2] == "renew":
    for path in (folder / "fresh").iterdir():
        shutil.copy(path, pki / "etcd" / path.name)
else:
    text = subprocess.run(["openssl", "x509", "-enddate", "-noout", "-in", pki / "etcd" / "server.crt"],
                          capture_output=True, text=True, check=True).stdout.strip().partition("=")[2]
    end = time.mktime(time.strptime(text, "%b %d %H:%M:%S %Y %Z")) - time.timezone
    print(json.dumps({{"certificates": [{{"name": "etcd-server", "residualTime": end - time.time()}}]}}))
"""


class Plane:
    """Three members whose etcd certificates end within 60 days."""

    def __init__(self, folder: Path) -> None:
        self.members = make_members(folder, NAMES)
        for member in self.members:
            fresh = member.folder / "fresh"
            fresh.mkdir()
            text = KUBEADM.format(python=sys.executable, folder=member.folder, pki=member.pki)
            member.program("kubeadm", text)
            self.expire(member)
        self.kubelet = Kubelet(self.members)

    @staticmethod
    def expire(member: Member, days: float = 10) -> None:
        """Give a member a certificate that ends in some days, and have kubeadm issue one for 300."""
        for part in ("server", "peer"):
            for lasts, target in ((days, member.pki / "etcd"), (300, member.folder / "fresh")):
                issued = member.authority.issue(f"{member.name}-{part}-{lasts}", member.name, days=lasts)
                for path in issued:
                    shutil.copy(path, target / f"{part}{path.suffix}")
        (member.folder / "kubeadm.log").unlink(missing_ok=True)

    def words(self, member: Member) -> list[str]:
        servers = [word for item in self.members for word in ("--server", item.secure)]
        places = ["--kubernetes", str(member.kubernetes), "--started", str(member.folder / "started")]
        return [sys.executable, str(FILES / "kubernetes-certificates"), "renew", *servers, *places]

    def begin(self, member: Member, *more: str) -> subprocess.Popen[str]:
        """Start the renewal as the timer does."""
        env = {"PATH": f"{member.folder}/bin:{PATH}"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([*self.words(member), *more], env=env, text=True, **pipes)  # type: ignore[call-overload, no-any-return]

    def refused(self, member: Member) -> str:
        """Why a renewal changes nothing."""
        before = (pods(member), (member.pki / "etcd" / "server.crt").read_bytes())
        process = self.begin(member, "--turn-s", "0")
        _, reported = process.communicate(timeout=300)
        assert process.returncode == 1 and "Traceback" not in reported, reported
        assert before == (pods(member), (member.pki / "etcd" / "server.crt").read_bytes())
        assert "renew" not in (member.folder / "kubeadm.log").read_text()
        return " ".join(reported.split())


def pods(member: Member) -> dict[str, str]:
    """The running pod of each part."""
    return {path.name: path.read_text() for path in (member.folder / "run").iterdir()}


def renewed_at(member: Member) -> float:
    """When kubeadm renewed the certificates."""
    (line,) = [
        line for line in (member.folder / "kubeadm.log").read_text().splitlines() if "renew all" in line
    ]
    return float(line.split()[-1])


def serves_until(member: Member) -> float:
    """When the certificate ends that etcd shows."""
    port = int(member.client.rpartition(":")[2])
    text = ssl.get_server_certificate(("127.0.0.1", port))
    done = subprocess.run(
        ["openssl", "x509", "-noout", "-enddate"], input=text, capture_output=True, text=True, check=True
    )
    return ssl.cert_time_to_seconds(done.stdout.strip().partition("=")[2])


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    made = Plane(tmp_path_factory.mktemp("plane"))
    made.kubelet.start()
    wait_for_servers(made)
    yield made
    made.kubelet.stop()


def wait_for_servers(plane: Plane) -> None:
    """Wait until every API server listens again."""
    deadline = time.monotonic() + 300
    for member in plane.members:
        port = f":{member.secure.rpartition(':')[2]} "
        while port not in subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout:
            assert time.monotonic() < deadline
            time.sleep(0.1)


class Writer:
    """A client of all members that writes all the time, and repeats a write that met a new leader."""

    def __init__(self, members: list[Member]) -> None:
        self.first, self.endpoints = members[0], ",".join(member.client for member in members)
        self.done, self.failed = 0, list[str]()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        keys = self.first.authority.folder
        certificate, key = self.first.authority.issue("writer", "writer")
        login = [f"--cacert={keys}/ca.crt", f"--cert={certificate}", f"--key={key}"]
        command = [
            "etcdctl",
            f"--endpoints={self.endpoints}",
            *login,
            "--command-timeout=10s",
            "put",
            "written",
        ]
        while not self._ended.wait(0.1):
            words = [*command, str(self.done)]
            env = {"PATH": PATH, "ETCDCTL_API": "3"}
            reported = []
            for _ in range(2):
                ended = subprocess.run(
                    words, env=env, capture_output=True, text=True, check=False, timeout=60
                )
                if ended.returncode == 0:
                    break
                reported.append(ended.stderr)
            else:
                self.failed += reported
            self.done += 1


def test_nothing_is_restarted_while_a_member_or_an_api_server_is_not_healthy(plane: Plane) -> None:
    first, second, third = plane.members
    aside = third.folder / "aside.yaml"
    (third.manifests / "etcd.yaml").rename(aside)
    deadline = time.monotonic() + 300
    while (third.folder / "run" / "etcd").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    try:
        reported = plane.refused(first)
        assert "the etcd member ctl03 is not healthy" in reported and "the timer tries again" in reported
    finally:
        aside.rename(third.manifests / "etcd.yaml")
    while "true" not in third.etcdctl("endpoint", "health", "--write-out=json", code=None):
        assert time.monotonic() < deadline + 300
        time.sleep(0.2)
    (second.manifests / "kube-apiserver.yaml").rename(second.folder / "aside.yaml")
    try:
        while (second.folder / "run" / "kube-apiserver").exists():
            time.sleep(0.1)
        assert f"the API server {second.secure} is not ready" in plane.refused(first)
    finally:
        (second.folder / "aside.yaml").rename(second.manifests / "kube-apiserver.yaml")
    wait_for_servers(plane)


def test_member_waits_for_the_restarts_of_another(plane: Plane) -> None:
    first = plane.members[0]
    sys.path.insert(0, str(FILES))
    try:
        from etcd_api import Etcd  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(FILES))
    etcd = Etcd(first.client, first.pki / "etcd")
    with etcd.lock("/gpufleet/restart-of-a-member", "ctl09", 60) as other:
        assert other == ""
        with etcd.lock("/gpufleet/restart-of-a-member", "ctl08", 60) as other:
            assert other == "ctl09"
        assert "ctl09 restarts its parts" in plane.refused(first)
    assert "restart-of-a-member" not in first.etcdctl("get", "/gpufleet", "--prefix")


def test_members_that_begin_at_once_are_renewed_one_after_another_without_an_interruption(
    plane: Plane,
) -> None:
    before = [pods(member) for member in plane.members]
    with Writer(plane.members) as writer:
        processes = [plane.begin(member) for member in plane.members]
        reported = [process.communicate(timeout=600) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], reported
    assert writer.failed == [] and writer.done > 5
    # The last part of a member is restarted before another member's certificates are renewed.
    spans = sorted(
        (renewed_at(member), (member.folder / "run" / "kube-scheduler").stat().st_mtime)
        for member in plane.members
    )
    assert all(first[1] < second[0] for first, second in pairwise(spans)), spans
    for member, old in zip(plane.members, before, strict=True):
        now = pods(member)
        assert set(now) == set(old) and all(now[part] != old[part] for part in old)
        assert serves_until(member) > time.time() + 200 * 86400
        assert (member.folder / "kubeadm.log").read_text().count("renew all") == 1
        assert not (member.folder / "started").exists()
    # And then there is nothing to do.
    process = plane.begin(plane.members[0])
    assert "nothing ends soon" in process.communicate(timeout=300)[0]


def test_killed_renewal_continues_with_the_restarts_and_renews_once(plane: Plane) -> None:
    member = plane.members[1]
    plane.expire(member)
    before = pods(member)
    process = plane.begin(member)
    started = member.folder / "started"
    deadline = time.monotonic() + 300
    while not started.exists() or "etcd" in started.read_text().split()[:2]:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    left = started.read_text().split()
    assert left and left[0] != "etcd"
    # Its lock is still there: etcd releases it when its time has come, and an administrator may do so.
    lease = json.loads(member.etcdctl("lease", "list", "--write-out=json"))["leases"]
    assert len(lease) == 1
    member.etcdctl("lease", "revoke", f"{int(lease[0]['id']):x}")
    etcd = pods(member)["etcd"]
    wait_for_servers(plane)
    again = plane.begin(member)
    out, reported = again.communicate(timeout=300)
    assert again.returncode == 0, reported
    assert "etcd" not in out.partition("restarted ")[2].split(", ")
    assert pods(member)["etcd"] == etcd != before["etcd"]
    assert (member.folder / "kubeadm.log").read_text().count("renew all") == 1
    assert not started.exists()


def test_certificate_that_has_ended_is_renewed_although_its_member_is_not_healthy_and_the_run_is_killed(
    plane: Plane,
) -> None:
    member = plane.members[2]
    plane.expire(member, days=-0.001)
    assert "true" not in member.etcdctl("endpoint", "health", "--write-out=json", code=None)
    process = plane.begin(member)
    started = member.folder / "started"
    deadline = time.monotonic() + 300
    while not started.exists() or "renew" in started.read_text():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    process = plane.begin(member)
    _, reported = process.communicate(timeout=200)
    assert process.returncode == 0, reported
    assert renewed_at(member) and not started.exists()
    deadline = time.monotonic() + 300
    while "true" not in member.etcdctl("endpoint", "health", "--write-out=json", code=None):
        assert time.monotonic() < deadline
        time.sleep(0.2)
