"""Pods of NVIDIA's GPU Operator that have GPUs open, paused on a node by its labels.

The operator's DaemonSets select nodes by one label for each component. The operator keeps another value of it
(gpu-operator, controllers/state_manager.go, addGPUStateLabels), by which NVIDIA's MIG manager pauses them
(mig-parted, deployments/container/reconfigure-mig.sh). A kubelet may change these labels of its own node: the
admission plugin NodeRestriction refuses it only labels of kubernetes.io and k8s.io.
"""

from __future__ import annotations

import time

from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes_pods import name_of, running
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes_service import KubernetesService
from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError

# `device-plugin` is the label of the MPS control daemon too.
LABELS = tuple(
    f"nvidia.com/gpu.deploy.{component}"
    for component in ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm")
)
# NVIDIA's own value, so that its tools know it as well.
PAUSED = "paused-for-mig-change"
RUNS = "true"
# As long as reconfigure-mig.sh waits.
PAUSE_S = 300
POLL_S = 2


def paused(node: KubernetesService) -> list[str]:
    """Labels of the components that a run has paused."""
    return _labels(node, PAUSED)


def pause(node: KubernetesService) -> None:
    """Stop the components that run on the node, and return when their pods are gone.

    Components that an administrator has turned off stay as they are. Raises RefusalError if pods stay.
    """
    labels = _labels(node, RUNS)
    _set(node, labels, PAUSED)
    chosen = {*labels, *paused(node)}
    deadline = time.monotonic() + PAUSE_S
    while left := _pods(node, chosen):
        if time.monotonic() >= deadline:
            raise RefusalError(
                f"Pods with GPUs did not leave {node.name} within {PAUSE_S} s: {', '.join(left)}. See "
                "`kubectl describe pod` and the log of the kubelet, and run again. The node stays cordoned."
            )
        time.sleep(POLL_S)


def resume(node: KubernetesService) -> None:
    """Start the paused components again."""
    _set(node, paused(node), RUNS)


def _labels(node: KubernetesService, value: str) -> list[str]:
    found = node.labels()
    return [label for label in LABELS if found.get(label) == value]


def _set(node: KubernetesService, labels: list[str], value: str) -> None:
    if labels:
        node.must("label", "node", node.name, "--overwrite", *(f"{label}={value}" for label in labels))


def _pods(node: KubernetesService, labels: set[str]) -> list[str]:
    """Names of the node's pods that the labels select."""
    pods = running(node.name, node.kubectl) if labels else []
    return sorted(name_of(pod) for pod in pods if labels & set(pod["spec"].get("nodeSelector") or {}))
