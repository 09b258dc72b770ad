"""kube-bench judges a control plane member: files of the roles and of real kubeadm, arguments of programs.

The member is a mount and process namespace of this machine. Its programs only wait, with the command lines of
kubeadm's manifests and of the kubelet's unit. What needs a running cluster is judged on the rack in a box.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import tests.unit.ansible.conftest  # noqa: F401
from tests.kube import kube_bench
from tests.kube.build import MINOR, kubeadm
from tests.kube.cluster_programs import benchmarks
from tests.kube.kube_bench import Control
from tests.programs import find_program
from tests.unit.ansible.collection.conftest import load
from tests.unit.ansible.rendering import Site
from tests.unit.ansible.test_kubernetes_files import FOLDER, fleet

pytestmark = pytest.mark.xdist_group("kube")
ROLES = ("kubernetes_base", "kubernetes_control_plane")
PARTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
WAIT = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n"
KUBELET = (
    "kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf"
    " --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml"
    " --config-dir=/etc/kubernetes/kubelet.conf.d"
)
# Everything that it changes is in a tmpfs of its own.
SETUP = """\
set -e
mount -t tmpfs none {folder}/own
for name in etc var; do
  own={folder}/own/$name
  mkdir -p $own/upper $own/work
  mount -t overlay none /$name -o lowerdir=/$name,upperdir=$own/upper,workdir=$own/work
done
rm -rf /etc/kubernetes /var/lib/etcd /var/lib/kubelet
echo ready
exec {folder}/bin/waiting
"""


class Member:
    """The namespaces, and what is in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("own", "bin"):
            (folder / name).mkdir()
        self.program("waiting")
        command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c"]
        self._process = subprocess.Popen(
            [*command, SETUP.format(folder=folder)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None and self._process.stdout.readline() == "ready\n"
        pid = self._process.pid
        self._pid = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        self.root = Path(f"/proc/{self._pid}/root")
        self._inside: list[subprocess.Popen[bytes]] = []

    def program(self, name: str) -> Path:
        """A program of that name that waits."""
        path = self.folder / "bin" / name
        if name == "waiting":
            words = [find_program("gcc"), "-static", "-Os", "-o", path, "-x", "c", "-"]
            subprocess.run(words, input=WAIT, text=True, check=True)
        else:
            path.hardlink_to(self.folder / "bin" / "waiting")
        return path

    def _enter(self, *words: str) -> list[str]:
        return ["nsenter", "--mount", "--pid", f"--target={self._pid}", *words]

    def sh(self, script: str) -> str:
        done = subprocess.run(
            self._enter("sh", "-e"),
            input=script,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"},
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def write(self, path: str, text: str, mode: str) -> None:
        place = shlex.quote(path)
        self.sh(f"mkdir -p $(dirname {place})\ncat >{place} <<'END'\n{text}\nEND\nchmod {mode} {place}\n")

    def start(self, command: list[str]) -> None:
        """Start a program that waits, with the arguments of another."""
        path = self.program(command[0])
        self._inside.append(subprocess.Popen(self._enter(str(path), *command[1:])))

    def stop(self) -> None:
        self._process.kill()  # and with it, by --kill-child, all in the namespace
        self._process.wait(30)
        for process in self._inside:
            process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    made = Member(tmp_path_factory.mktemp("member"))
    try:
        fill(made, Site(fleet(MINOR), tmp_path_factory.mktemp("site")))
        yield made
    finally:
        made.stop()


def fill(member: Member, site: Site) -> None:
    """What the roles, the packages and kubeadm put onto a member."""
    for role in ROLES:
        # Monitoring opens more than its absence does.
        more = {"kubernetes_control_plane_metrics": True}
        for path, item in site.rendered("ctl01", role, "debian_12", more).items():
            if path.startswith("/etc/kubernetes/"):
                member.write(path, item.text, item.mode)
    member.write("/etc/systemd/system/kubelet.service", "[Service]\nExecStart=/usr/bin/kubelet", "0644")
    phases = ("certs all", "kubeconfig all", "kubelet-start", "control-plane all", "etcd local")
    for phase in phases:
        member.sh(f"{kubeadm(MINOR)} init phase {phase} --config {FOLDER}/kubeadm.yaml")
    params = {"config": "", "release": "", "upload": False, "timeout_s": 60}
    load("kubeadm").KubeadmHost(params, member.root).protect(False)
    for part in PARTS:
        manifest = yaml.safe_load((member.root / f"etc/kubernetes/manifests/{part}.yaml").read_text())
        member.start(manifest["spec"]["containers"][0]["command"])
    member.start(KUBELET.split())
    member.start(["kube-proxy", "--config=/var/lib/kube-proxy/config.conf", "--hostname-override=ctl01"])
    deadline = time.monotonic() + 300
    while len(member.sh("ps -C kubelet,kube-proxy,etcd -o pid=").split()) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture(scope="module")
def report(member: Member, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Control], set[str]]:
    folder = tmp_path_factory.mktemp("kube-bench") / "here"
    kube_bench.install(folder)
    return kube_bench.judge(member.sh, str(folder), kube_bench.MEMBER)


def test_controls_of_a_member_are_passed_or_have_a_reason(report: tuple[list[Control], set[str]]) -> None:
    found, judged = report
    assert len(judged) == 97
    assert kube_bench.without_reason(found) == []
    assert {item.number for item in found if item.status == "FAIL"} == {"1.1.12", "1.3.7", "1.4.2", "4.1.1"}


def test_reasons_are_only_for_controls_that_are_not_passed(report: tuple[list[Control], set[str]]) -> None:
    found, judged = report
    assert judged & kube_bench.exceptions().keys() == {item.number for item in found}


def test_each_control_of_the_policies_is_listed_or_judged_by_kube_bench() -> None:
    """Those that kube-bench can only warn of; the others are judged on a running cluster."""
    policies = yaml.safe_load((benchmarks() / kube_bench.BENCHMARK / "policies.yaml").read_text())
    manual = {
        check["id"]
        for group in policies["groups"]
        for check in group["checks"]
        if check.get("type") == "manual"
    }
    assert manual <= kube_bench.exceptions().keys()
