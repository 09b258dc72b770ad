"""The kubelet's record of processors is removed, on a drained node, before the kubelet's policy changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load
from tests.unit.ansible.collection.test_node_guard import GPUS, MANAGED, PLAIN, host, kubernetes, write_pods

module = load("cpu_manager_state")
RefusalError = module.RefusalError
# As kubeadm 1.35 writes it.
CONFIG = """\
kind: KubeletConfiguration
kubeReserved:
  cpu: "2"
  memory: 4096Mi
logging:
  verbosity: 0
"""
__all__ = ["host", "kubernetes"]


class Kubelet:
    """The files of a node's kubelet."""

    def __init__(self, root: Path, policy: str) -> None:
        self.root = root
        self.state = root / module.STATE
        self.state.parent.mkdir(parents=True, exist_ok=True)
        self.state.write_text(json.dumps({"policyName": policy, "defaultCpuSet": "", "checksum": 1}))
        (root / module.CONFIG).write_text(CONFIG)

    def work(self, policy: str = "static", reserved: int = 2, *, check: bool = False) -> dict[str, Any]:
        answer: dict[str, Any] = module.work({"policy": policy, "reserved": reserved}, check, self.root)
        return answer


@pytest.mark.parametrize(
    ("now", "policy", "reserved", "says"),
    [
        ("none", "static", 2, "the kubelet's processor policy changes from none to static"),
        ("static", "none", 2, "the kubelet's processor policy changes from static to none"),
        ("static", "static", 4, "the kubelet's reserved processors change from 2 to 4"),
        ("static", "static", 2, ""),
        ("none", "none", 4, ""),
    ],
)
def test_change_of_policy_or_of_reserved_processors_needs_a_new_state(
    tmp_path: Path, now: str, policy: str, reserved: int, says: str
) -> None:
    Kubelet(tmp_path, now)
    assert module.difference_of(tmp_path, policy, reserved) == says


def test_state_that_cannot_be_read_is_removed_too(tmp_path: Path) -> None:
    Kubelet(tmp_path, "none").state.write_text("{")
    assert "cannot be read" in module.difference_of(tmp_path, "static", 2)


def test_node_before_its_first_start_is_left_alone(kubernetes: Path, programs: Programs) -> None:
    assert module.work({"policy": "static", "reserved": 2}, False, kubernetes / "empty") == {
        "changed": False,
        "drained": False,
    }
    assert programs.called("kubectl") == programs.called("systemctl") == []


def test_node_is_drained_and_its_pods_leave_before_the_kubelet_stops(
    kubernetes: Path, programs: Programs
) -> None:
    kubelet = Kubelet(kubernetes / "root", "none")
    write_pods(kubernetes, web=(MANAGED, PLAIN))
    programs.add("systemctl", f'[ "$1" != stop ] || cp {kubernetes}/pods {kubernetes}/pods-at-stop')
    assert kubelet.work(check=True)["changed"] and kubelet.state.exists()
    assert not (kubernetes / "evicted").exists()
    answer = kubelet.work()
    assert answer["changed"] and answer["drained"]
    assert not kubelet.state.exists()
    assert json.loads((kubernetes / "pods-at-stop").read_text()) == {"items": []}
    assert "systemctl stop kubelet.service" in programs.called("systemctl")
    assert not kubelet.work()["changed"]


def test_job_with_gpus_keeps_kubelet_and_state(kubernetes: Path, programs: Programs) -> None:
    kubelet = Kubelet(kubernetes / "root", "none")
    write_pods(kubernetes, train=(MANAGED, GPUS))
    with pytest.raises(RefusalError, match=r"in use by pod team-a/train \(nvidia.com/gpu: 8\)"):
        kubelet.work()
    assert kubelet.state.exists()
    assert not [line for line in programs.called("systemctl") if " stop " in line]
