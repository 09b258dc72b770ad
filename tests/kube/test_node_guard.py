"""A real API server lets a kubelet's certificate do all that the guard of a node does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tests.unit.ansible.conftest  # noqa: F401
from gpufleet.lab.kubernetes.rest import ApiError, Rest
from tests.kube.cluster import ApiServerProcess
from tests.unit.ansible.collection.conftest import load, programs_of_a_host

node_guard = load("node_guard").node_guard
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
    monkeypatch.setattr(node_guard.workloads, "device_processes", lambda *_, **__: [])
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


def run_pod(rest: Rest, name: str, owner: str, **limits: str) -> None:
    """A pod on the node, which ends at once when it is deleted: no kubelet confirms it here."""
    reference = {"apiVersion": "apps/v1", "kind": owner, "name": name, "uid": f"uid-{name}"}
    container: dict[str, Any] = {"name": "main", "image": "x", "resources": {"limits": limits}}
    rest.call(
        "POST",
        PODS,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": [reference]},
            "spec": {"nodeName": NODE, "terminationGracePeriodSeconds": 0, "containers": [container]},
        },
    )


def test_pod_with_gpus_stops_the_change_and_other_pods_are_evicted_before_a_reboot(
    node: str, rest: Rest
) -> None:
    run_pod(rest, "train", "Job", **{"nvidia.com/gpu": "8"})
    run_pod(rest, "web", "ReplicaSet")
    run_pod(rest, "plugin", "DaemonSet")
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


def test_host_that_is_no_node_yet_passes(node: str, rest: Rest) -> None:
    rest.call("DELETE", f"{NODES}/{node}")
    try:
        assert node_guard.take_out_of_service("the host reboots", stops="host", name=node).drained is False
    finally:
        with pytest.raises(ApiError):
            rest.call("GET", f"{NODES}/{node}")
        rest.call("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
