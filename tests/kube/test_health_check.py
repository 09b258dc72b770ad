"""The health check takes a faulty node out of a real cluster, and returns it, as it does in Slurm."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpufleet.lab.kubernetes import kubeconfig
from gpufleet.lab.kubernetes.rest import ApiError, Rest
from tests.kube.cluster import ApiServerProcess, free_ports
from tests.kube.processes import end, run_controller
from tests.unit.ansible.health.conftest import Node as Host
from tests.unit.ansible.health.conftest import node as host  # noqa: F401 - a fixture

pytestmark = pytest.mark.xdist_group("kube")

NAME = "dgx01"
NODE, PODS = f"/api/v1/nodes/{NAME}", "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"
REASON = "gpufleet: GPU 5 Xid 79"


@pytest.fixture(scope="module")
def controllers(api_server: ApiServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A real scheduler, and the controller that taints nodes."""
    folder = tmp_path_factory.mktemp("controllers")
    ports = free_ports(2)
    running = [
        run_controller(folder, api_server, "kube-scheduler", ports[0]),
        # No kubelet renews its lease here.
        run_controller(
            folder, api_server, "kube-controller-manager", ports[1], "--node-monitor-grace-period=1h"
        ),
    ]
    yield
    for process in running:
        end(process)


@pytest.fixture
def node(host: Host, api_server: ApiServerProcess, rest: Rest) -> Iterator[Host]:  # noqa: F811
    """A healthy GPU node of the cluster: its health check has the kubelet's certificate."""
    host.config |= {"slurm": False, "kubernetes": True, "timeout_s": 15}
    kubernetes = host.root / "etc/kubernetes"
    kubernetes.mkdir(parents=True)
    certificate, key = api_server.authority.issue(NAME, f"system:node:{NAME}", "system:nodes")
    for path in (certificate, key, api_server.folder / "ca.crt"):
        (kubernetes / path.name).write_bytes(path.read_bytes())
    user = {"client-certificate": certificate.name, "client-key": key.name}
    (kubernetes / "kubelet.conf").write_text(json.dumps(api_server.config(user)))
    rest.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}})
    room = {"cpu": "200", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now()}
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    rest.call("PATCH", f"{NODE}/status", {"status": status}, content_type=MERGE)
    yield host
    for name in pods(rest):
        rest.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    rest.call("DELETE", NODE)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def pods(rest: Rest) -> dict[str, str]:
    """Pods and the node of each."""
    found = rest.call("GET", PODS)["items"]
    return {item["metadata"]["name"]: item["spec"].get("nodeName", "") for item in found}


def start_pod(rest: Rest, name: str, owner: str = "Job", *, bound: bool = True, **limits: str) -> None:
    """A pod on the node, or one that a scheduler has to place. No kubelet confirms its end here."""
    reference = {"apiVersion": "apps/v1", "kind": owner, "name": name, "uid": f"uid-{name}"}
    container: dict[str, Any] = {"name": "main", "image": "x", "resources": {"limits": limits}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    about = {"name": name, "ownerReferences": [reference], "labels": {"app": name}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": about}
    rest.call("POST", PODS, body | {"spec": spec | ({"nodeName": NAME} if bound else {})})


def seen(rest: Rest) -> tuple[bool, str]:
    """Whether the node is cordoned, and the check's reason."""
    found = rest.call("GET", NODE)
    notes = found["metadata"].get("annotations", {})
    return bool(found["spec"].get("unschedulable")), notes.get("gpufleet.io/health", "")


def taints(rest: Rest) -> set[str]:
    return {f"{each['key']}:{each['effect']}" for each in rest.call("GET", NODE)["spec"].get("taints", [])}


def wait(true: Callable[[], object], limit_s: float = 300) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_faulty_node_is_tainted_and_gets_no_pod_until_it_is_well(
    node: Host, rest: Rest, controllers: None
) -> None:
    start_pod(rest, "train", **{"nvidia.com/gpu": "8"})
    start_pod(rest, "slice", "ReplicaSet", **{"nvidia.com/mig-1g.10gb": "1"})
    start_pod(rest, "web", "ReplicaSet")
    start_pod(rest, "plugin", "DaemonSet", **{"nvidia.com/gpu": "1"})
    node.run()
    assert seen(rest) == (False, "")

    node.xid(79, gpu=5)
    node.run()
    cordoned, reason = seen(rest)
    assert cordoned and reason.startswith(REASON)
    assert pods(rest).keys() == {"web", "plugin"}
    # The controller manager's: the API server refuses taints of a kubelet.
    wait(lambda: "node.kubernetes.io/unschedulable:NoSchedule" in taints(rest))
    start_pod(rest, "next", bound=False, **{"nvidia.com/gpu": "1"})

    def refused() -> bool:
        status = rest.call("GET", f"{PODS}/next").get("status", {})
        return any(each.get("reason") == "Unschedulable" for each in status.get("conditions", []))

    wait(refused)
    assert pods(rest)["next"] == ""
    found = json.loads((node.root / "var/lib/gpufleet/health/findings.json").read_text())
    assert found["drained"] is True and "evicted default/train" in found["scheduler"]

    # It boots, which an Xid 79 asks for, and is well in two runs.
    node.log.clear()
    node.file("proc/sys/kernel/random/boot_id", "second-boot")
    node.run()
    assert seen(rest) == (True, reason)
    node.run()
    assert seen(rest) == (False, "")
    wait(lambda: pods(rest)["next"] == NAME)


def test_fault_that_harms_no_result_lets_pods_end(node: Host, rest: Rest) -> None:
    start_pod(rest, "train", **{"nvidia.com/gpu": "8"})
    node.file("sys/module/nvidia/version", "570.1")
    node.run()
    assert seen(rest) == (True, "gpufleet: driver 570.1 is loaded instead of 580.159.03")
    assert pods(rest).keys() == {"train"}


def test_eviction_can_be_switched_off_and_respects_disruption_budgets(node: Host, rest: Rest) -> None:
    node.gpus[0]["ecc.errors.uncorrected.volatile.total"] = "1"
    start_pod(rest, "train", **{"nvidia.com/gpu": "8"})
    node.config["evict"] = False
    node.run()
    assert seen(rest)[0] and pods(rest).keys() == {"train"}

    node.config["evict"] = True
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "train"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}}
    rest.call("POST", BUDGETS, budget | {"spec": spec})
    rest.call("PATCH", f"{PODS}/train/status", {"status": {"phase": "Running"}}, content_type=MERGE)
    try:
        node.run()
        assert pods(rest).keys() == {"train"}
        found = json.loads((node.root / "var/lib/gpufleet/health/findings.json").read_text())
        assert "default/train stays" in found["scheduler"]
    finally:
        rest.call("DELETE", f"{BUDGETS}/keep")
    node.run()
    assert pods(rest).keys() == set()


def test_cordon_of_an_administrator_is_neither_changed_nor_lifted(node: Host, rest: Rest) -> None:
    start_pod(rest, "train", **{"nvidia.com/gpu": "8"})
    rest.call("PATCH", NODE, {"spec": {"unschedulable": True}}, content_type=MERGE)
    node.gpus[0]["ecc.errors.uncorrected.volatile.total"] = "1"
    node.run()
    assert seen(rest) == (True, "") and pods(rest).keys() == {"train"}
    node.gpus[0]["ecc.errors.uncorrected.volatile.total"] = "0"
    for _ in range(3):
        node.run()
    assert seen(rest) == (True, "")


def test_node_that_an_administrator_uncordons_loses_the_reason_once_it_is_well(
    node: Host, rest: Rest
) -> None:
    node.xid(79)
    node.run()
    rest.call("PATCH", NODE, {"spec": {"unschedulable": None}}, content_type=MERGE)
    # The Xid is accepted, as in Slurm.
    node.run()
    assert seen(rest)[0] is False
    node.run()
    assert seen(rest) == (False, "")


def test_kubelet_certificate_may_not_taint(node: Host, rest: Rest, api_server: ApiServerProcess) -> None:
    kubelet = Rest(kubeconfig.read(str(node.root / "etc/kubernetes/kubelet.conf")))
    taint = {"key": "gpufleet.io/unhealthy", "effect": "NoSchedule"}
    with pytest.raises(ApiError, match="not allowed to modify taints"):
        kubelet.call("PATCH", NODE, {"spec": {"taints": [taint]}}, content_type=MERGE)


def test_host_without_a_cluster_and_one_without_an_answer_write_their_findings(
    node: Host, rest: Rest
) -> None:
    config = node.root / "etc/kubernetes/kubelet.conf"
    config.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", config.read_text()))
    node.gpus[0]["ecc.errors.uncorrected.volatile.total"] = "1"
    assert node.run() == 0
    found = json.loads((node.root / "var/lib/gpufleet/health/findings.json").read_text())
    assert found["scheduler"].startswith("the API server did not answer: ") and not found["drained"]
    config.unlink()
    assert node.run() == 0
    assert "gpufleet_health_healthy 0" in node.metrics
    assert seen(rest) == (False, "")
