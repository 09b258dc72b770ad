"""NVSentinel's chart with our values: helm renders it, a real API server judges its objects.

The server has no kinds of cert-manager: those objects are only counted.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpufleet.components.nvsentinel import NAMESPACE, STORAGE_CLASS, NvsentinelArgs, values
from gpufleet.lab.kubernetes.rest import ApiError, Rest
from tests.kube.test_kubernetes_gpu import nvidia, rendered

pytestmark = pytest.mark.xdist_group("kube")

VERSION = "v1.14.0"
SYSTEM = {"gpufleet.io/node-group": "system"}
MONITORS = {
    *("platform-connectors", "gpu-health-monitor-dcgm-3.x", "gpu-health-monitor-dcgm-4.x"),
    *("syslog-health-monitor-regular", "syslog-health-monitor-kata"),
}
PLURALS = {"NetworkPolicy": "networkpolicies"}


def made(action: Any = "detect", **more: Any) -> list[dict[str, Any]]:
    args = NvsentinelArgs(version=VERSION, cert_manager_version="v1.19.1", action=action, labels={}, **more)
    return rendered(nvidia("nvsentinel"), values(args), name=NAMESPACE)


def of(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item for item in objects if item["kind"] == kind}


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    kinds = ("DaemonSet", "Deployment", "StatefulSet", "Job")
    return {
        name: item["spec"]["template"]["spec"] for kind in kinds for name, item in of(objects, kind).items()
    }


def rights(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {
        (resource, verb)
        for kind in ("ClusterRole", "Role")
        for role in of(objects, kind).values()
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_detection_runs_monitors_on_gpu_nodes_and_a_labeler_on_system_nodes() -> None:
    objects = made(taint_keys=["nvidia.com/gpu", "dedicated"])
    found = pods(objects)
    assert set(of(objects, "DaemonSet")) == MONITORS
    assert found.keys() - MONITORS == {"labeler"}
    assert found["labeler"]["nodeSelector"] == SYSTEM
    for name in MONITORS:
        assert {each["key"] for each in found[name]["tolerations"]} == {"nvidia.com/gpu", "dedicated"}
    affinity = found["platform-connectors"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "gpufleet.io/gpu", "operator": "Exists"}]
    labeler = json.dumps(of(objects, "Deployment")["labeler"])
    assert "assume-driver-installed" in labeler
    monitor = found["gpu-health-monitor-dcgm-4.x"]["containers"][0]["args"]
    assert "nvidia-dcgm.gpu-operator.svc:5555" in monitor


@pytest.mark.parametrize("action", ["detect", "quarantine", "drain"])
def test_images_of_nvsentinel_have_the_version_of_the_chart(action: str) -> None:
    images = [
        container["image"]
        for pod in pods(made(action)).values()
        for container in (*pod["containers"], *pod.get("initContainers", ()))
    ]
    own = [image for image in images if image.startswith("ghcr.io/nvidia/")]
    assert own and all(f":{VERSION}" in image for image in own)
    assert not any(image.endswith((":main", ":latest")) for image in images)


@pytest.mark.parametrize("action", ["detect", "quarantine", "drain"])
def test_no_pod_is_privileged_and_none_reads_through_the_kubelet(action: str) -> None:
    objects = made(action)
    for pod in pods(objects).values():
        assert not pod.get("hostPID") and not pod.get("hostNetwork")
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert not container.get("securityContext", {}).get("privileged")
    assert not {resource for resource, _ in rights(objects)} & {"nodes/proxy", "pods/exec", "*"}
    ends = {("pods", "delete")} & rights(objects)
    assert bool(ends) == (action == "drain")


def test_quarantine_cordons_and_taints_nothing() -> None:
    """The Cluster Autoscaler knows a cordon: it needs no flag for a taint that is not its own."""
    objects = made("quarantine")
    assert set(of(objects, "Deployment")) == {"labeler", "fault-quarantine"}
    config = of(objects, "ConfigMap")["fault-quarantine"]["data"]["config.toml"]
    assert config.count("shouldCordon = true") >= 3
    assert "[rule-sets.taint]" not in config and "effect" not in config


def test_drain_waits_and_leaves_namespaces_of_the_cluster() -> None:
    objects = made("drain", drain_after_min=15)
    assert set(of(objects, "Deployment")) == {"labeler", "fault-quarantine", "node-drainer"}
    config = of(objects, "ConfigMap")["node-drainer"]["data"]["config.toml"]
    assert "deleteAfterTimeoutMinutes = 15" in config
    assert 'mode = "DeleteAfterTimeout"' in config
    assert "AllowCompletion" not in config
    assert "gpufleet-system" in config


def test_database_is_on_system_nodes_with_our_volumes_and_ends_with_them() -> None:
    objects = made("drain")
    found = pods(objects)
    for name in ("mongodb", "create-mongodb-database", "fault-quarantine", "node-drainer"):
        assert found[name]["nodeSelector"] == SYSTEM, name
    spec = of(objects, "StatefulSet")["mongodb"]["spec"]
    assert [each["spec"]["storageClassName"] for each in spec["volumeClaimTemplates"]] == [STORAGE_CLASS]
    assert spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete"
    assert len(of(objects, "Certificate")) == 5
    # The policy that lets the modules reach the database selects by the name of the release.
    policy = of(objects, "NetworkPolicy")["mongodb-networkpolicy"]["spec"]["podSelector"]["matchLabels"]
    assert policy.items() <= spec["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("action", ["detect", "quarantine", "drain"])
def test_server_accepts_the_objects(rest: Rest, action: str) -> None:
    namespace = "/api/v1/namespaces"
    if rest.find(f"{namespace}/{NAMESPACE}") is None:
        rest.call("POST", namespace, {"metadata": {"name": NAMESPACE}})
    judged = 0
    for item in made(action):
        group = item["apiVersion"]
        if group.startswith("cert-manager.io/"):
            continue
        root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
        inside = "" if item["kind"].startswith("Cluster") else f"/namespaces/{NAMESPACE}"
        plural = PLURALS.get(item["kind"], f"{item['kind'].lower()}s")
        path = f"{root}{inside}/{plural}?dryRun=All&fieldValidation=Strict"
        try:
            rest.call("POST", path, item)
        except ApiError as refusal:
            pytest.fail(f"{item['kind']} {item['metadata']['name']}: {refusal}")
        judged += 1
    assert judged > 15
