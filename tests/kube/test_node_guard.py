"""A real API server lets a kubelet's certificate do all that the guard of a node does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tests.unit.ansible.conftest  # noqa: F401
from gpufleet.lab.kubernetes.rest import ApiError, Rest
from tests.kube.cluster import ApiServerProcess
from tests.unit.ansible.collection.conftest import load, programs_of_a_host

node_guard = load("node_guard").node_guard
gpu_operator = load("mig").gpu_operator
pytestmark = pytest.mark.xdist_group("kube")

NODE = "dgx-guard"
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"


@pytest.fixture
def node(
    api_server: ApiServerProcess,
    rest: Rest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """A node of the cluster, and this host with its kubelet's certificate."""
    certificate, key = api_server.authority.issue(NODE, f"system:node:{NODE}", "system:nodes")
    config = api_server.folder / "kubelet.conf"
    config.write_text(
        json.dumps(api_server.config({"client-certificate": certificate.name, "client-key": key.name}))
    )
    monkeypatch.setattr(node_guard, "KUBELET", config)
    # Processes of a folder, not of this machine.
    found = node_guard.workloads.device_processes
    monkeypatch.setattr(node_guard.workloads, "device_processes", partial(found, root=tmp_path))
    programs = programs_of_a_host(tmp_path, monkeypatch)
    for name in ("scontrol", "docker", "loginctl", "systemctl"):
        programs.add(name, "echo not found; exit 1")
    rest.call("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    yield NODE
    for name in pods(rest):
        rest.call("DELETE", f"{PODS}/{name}")
    rest.call("DELETE", f"{NODES}/{NODE}")


def pods(rest: Rest) -> set[str]:
    found = rest.call("GET", PODS)["items"]
    return {item["metadata"]["name"] for item in found if item["spec"].get("nodeName") == NODE}


def run_pod(rest: Rest, name: str, owner: str, selector: str = "", **limits: str) -> str:
    """Start a pod on the node, and return its UID.

    It ends at once when it is deleted: no kubelet confirms it here.
    """
    reference = {"apiVersion": "apps/v1", "kind": owner, "name": name, "uid": f"uid-{name}"}
    container: dict[str, Any] = {"name": "main", "image": "x", "resources": {"limits": limits}}
    made = rest.call(
        "POST",
        PODS,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": [reference]},
            "spec": {
                "nodeName": NODE,
                "nodeSelector": {selector: "true"} if selector else {},
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
            },
        },
    )
    return str(made["metadata"]["uid"])


def open_gpu(root: Path, number: int, name: str, pod: str) -> None:
    """A process of a pod, as containerd starts it under systemd, with a GPU open."""
    folder = root / "proc" / str(number)
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n")
    within = f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{pod.replace('-', '_')}.slice"
    (folder / "cgroup").write_text(f"0::/{within}/cri-containerd-0c1d.scope\n")
    (folder / "fd" / "3").symlink_to("/dev/nvidiactl")


def test_pod_with_gpus_stops_the_change_and_other_pods_are_evicted_before_a_reboot(
    node: str, rest: Rest, tmp_path: Path
) -> None:
    run_pod(rest, "train", "Job", **{"nvidia.com/gpu": "8"})
    run_pod(rest, "web", "ReplicaSet")
    plugin = run_pod(rest, "plugin", "DaemonSet")
    # NVIDIA's device plugin waits for events of its GPUs as long as it runs.
    open_gpu(tmp_path, 11, "nvidia-device-p", plugin)
    with pytest.raises(node_guard.RefusalError, match=r"in use by pod default/train \(nvidia.com/gpu: 8\)"):
        node_guard.take_out_of_service("the host reboots", stops="host", name=node)
    held = rest.call("GET", f"{NODES}/{node}")
    assert held["spec"]["unschedulable"] is True
    assert held["metadata"]["annotations"]["gpufleet.io/operation"].startswith("configure by ")
    assert pods(rest) == {"train", "web", "plugin"}

    rest.call("DELETE", f"{PODS}/train")
    taken = node_guard.take_out_of_service("the host reboots", stops="host", name=node)
    assert (taken.drained, taken.diff) == (True, [])
    assert pods(rest) == {"plugin"}

    assert node_guard.give_back(name=node)
    again = rest.call("GET", f"{NODES}/{node}")
    assert not again["spec"].get("unschedulable")
    assert "gpufleet.io/operation" not in again["metadata"].get("annotations", {})


def test_process_of_a_normal_pod_stops_the_change(node: str, rest: Rest, tmp_path: Path) -> None:
    open_gpu(tmp_path, 11, "nvidia-device-p", run_pod(rest, "plugin", "DaemonSet"))
    # Without a limit: a pod with NVIDIA_VISIBLE_DEVICES=all and the runtime class nvidia.
    open_gpu(tmp_path, 12, "python3", run_pod(rest, "notebook", "ReplicaSet"))
    with pytest.raises(node_guard.RefusalError, match=r"in use by process python3 \(12\) of \w+\. "):
        node_guard.take_out_of_service("the driver changes", name=node)


def test_kubelet_pauses_and_resumes_the_pods_of_the_gpu_operator(
    node: str, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, discovery, *_ = gpu_operator.LABELS
    found = rest.call("GET", f"{NODES}/{node}")
    found["metadata"].setdefault("labels", {}).update({plugin: "true", discovery: "false"})
    rest.call("PUT", f"{NODES}/{node}", found)
    run_pod(rest, "plugin", "DaemonSet", plugin)
    run_pod(rest, "discovery", "DaemonSet", discovery)
    # The DaemonSet controller, which does not run here, deletes the pods of a node without the label.
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: rest.call("DELETE", f"{PODS}/plugin"))
    monkeypatch.setattr(gpu_operator, "time", clock)

    def labels() -> tuple[str, str]:
        now = rest.call("GET", f"{NODES}/{node}")["metadata"]["labels"]
        return now[plugin], now[discovery]

    service = node_guard.services(node)[0]
    gpu_operator.pause(service)
    assert labels() == ("paused-for-mig-change", "false")
    assert pods(rest) == {"discovery"}
    gpu_operator.resume(service)
    assert labels() == ("true", "false")


def test_host_that_is_no_node_yet_passes(node: str, rest: Rest) -> None:
    rest.call("DELETE", f"{NODES}/{node}")
    try:
        assert node_guard.take_out_of_service("the host reboots", stops="host", name=node).drained is False
    finally:
        with pytest.raises(ApiError):
            rest.call("GET", f"{NODES}/{node}")
        rest.call("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
