"""The program that renews certificates, as far as it needs no etcd; tests/kube has the rest."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

FILES = Path(__file__).resolve().parents[3] / "ansible" / "roles" / "kubernetes_control_plane" / "files"

KUBEADM = """\
#!/bin/sh
case "$*" in
  *check-expiration*) cat {folder}/certificates.json;;
esac
"""


class Member:
    """A host with a stand-in for kubeadm."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin" / "kubeadm").write_text(KUBEADM.format(folder=folder))
        (folder / "bin" / "kubeadm").chmod(0o755)

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, FILES / program, *words],
            env={"PATH": f"{self.folder}/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def certificates(self, **days: float) -> None:
        listed = [{"name": name, "residualTime": left * 86400} for name, left in days.items()]
        (self.folder / "certificates.json").write_text(json.dumps({"certificates": listed}))


@pytest.fixture
def member(tmp_path: Path) -> Member:
    return Member(tmp_path)


def test_days_that_certificates_last_are_shown(member: Member) -> None:
    member.certificates(apiserver=300, scheduler=61)
    shown = json.loads(member.run("kubernetes-certificates", "show").stdout)
    assert shown == {"apiserver": 300, "scheduler": 61}


def test_ends_of_certificates_are_reported_to_the_node_exporter_also_if_the_renewal_fails(
    member: Member,
) -> None:
    textfiles = member.folder / "textfiles"
    textfiles.mkdir()
    words = ("renew", "--started", str(member.folder / "started"), "--textfiles", str(textfiles))
    member.certificates(apiserver=10)
    # The host is no member.
    done = member.run("kubernetes-certificates", *words, "--kubernetes", str(member.folder))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    (metrics,) = textfiles.iterdir()
    accepted = subprocess.run(["promtool", "check", "metrics"], input=metrics.read_bytes(), check=False)
    assert accepted.returncode == 0
    sample = metrics.read_text().splitlines()[-1]
    name, value = sample.split()
    assert name == 'gpufleet_kubernetes_certificate_expiry_timestamp_seconds{certificate="apiserver"}'
    assert abs(float(value) - time.time() - 10 * 86400) < 600
