"""A Deployment is restarted only where all of its pods share a node, and another node can take one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

spread = load("kubernetes_spread")
PARAMS = {
    "deployment": "coredns",
    "namespace": "kube-system",
    "selector": "k8s-app=kube-dns",
    "nodes": ["ctl01", "ctl02"],
    "timeout_s": 60,
}


def node(name: str, *, ready: bool = True, cordoned: bool = False) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": {"name": name},
        "spec": {"unschedulable": cordoned},
        "status": {"conditions": conditions},
    }


def answer(programs: Programs, places: list[str], nodes: list[dict[str, Any]]) -> None:
    pods = [{"spec": {"nodeName": place} if place else {}} for place in places]
    programs.add(
        "kubectl",
        f"case \"$*\" in\n  *'get pods'*) echo '{json.dumps({'items': pods})}';;\n"
        f"  *'get nodes'*) echo '{json.dumps({'items': nodes})}';;\nesac",
    )


def restarts(programs: Programs) -> list[str]:
    return [line.split("rollout ")[1] for line in programs.called("kubectl") if "rollout " in line]


@pytest.mark.parametrize(
    ("places", "nodes", "changed"),
    [
        (["ctl01", "ctl01"], [node("ctl01"), node("ctl02")], True),
        (["ctl01", "ctl02"], [node("ctl01"), node("ctl02")], False),
        (["ctl01"], [node("ctl01"), node("ctl02")], False),
        (["ctl01", ""], [node("ctl01"), node("ctl02")], False),
        (["", ""], [node("ctl01"), node("ctl02")], False),
        (["ctl01", "ctl01"], [node("ctl01"), node("ctl02", ready=False)], False),
        (["ctl01", "ctl01"], [node("ctl01"), node("ctl02", cordoned=True)], False),
        (["ctl01", "ctl01"], [node("ctl01"), node("dgx01")], False),
    ],
)
def test_restart_needs_pods_on_one_node_and_another_one(
    programs: Programs, tmp_path: Path, places: list[str], nodes: list[dict[str, Any]], changed: bool
) -> None:
    answer(programs, places, nodes)
    kubeconfig = tmp_path / "admin.conf"
    kubeconfig.touch()
    assert spread.work(PARAMS, True, str(kubeconfig))["changed"] is changed
    assert restarts(programs) == []
    assert spread.work(PARAMS, False, str(kubeconfig))["changed"] is changed
    wanted = "deployment/coredns -n kube-system"
    assert restarts(programs) == ([f"restart {wanted}", f"status {wanted} --timeout=60s"] if changed else [])


def test_one_member_and_a_check_run_before_the_cluster_ask_nobody(programs: Programs, tmp_path: Path) -> None:
    programs.add("kubectl", "exit 1")
    assert spread.work(PARAMS | {"nodes": ["ctl01"]}, False)["changed"] is False
    assert spread.work(PARAMS, True, str(tmp_path / "none"))["changed"] is False
    assert programs.called("kubectl") == []
