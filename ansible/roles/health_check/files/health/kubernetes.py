"""The node in Kubernetes: cordoned with the reason in an annotation, with the rights of its kubelet.

The API server lets a kubelet cordon its own node and evict its own pods, and not set taints (admission plugin
NodeRestriction): the controller manager gives a cordoned node the taint
`node.kubernetes.io/unschedulable:NoSchedule`.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from health.commands import CommandResult, run
from health.config import Config
from health.draining import Order

NAME = "the API server"
KUBELET = "/etc/kubernetes/kubelet.conf"
ANNOTATION = "gpufleet.io/health"
# They belong to the node and run on it, drained or not.
OF_NODE = {"DaemonSet", "Node"}
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class KubernetesNode:
    """The node in the API server."""

    drained: bool
    reason: str

    @property
    def state(self) -> str:
        """As `kubectl get nodes` has it."""
        return "SchedulingDisabled" if self.drained else "schedulable"

    @property
    def stale(self) -> bool:
        """Whether an administrator uncordoned it and left the reason."""
        return bool(self.reason) and not self.drained


def joined(config: Config) -> bool:
    """Whether this host is part of a cluster."""
    return config.path(KUBELET).exists()


def kubectl(config: Config, *words: str) -> list[str]:
    """A command with the kubelet's certificate."""
    return ["kubectl", "--kubeconfig", str(config.path(KUBELET)), *words]


def question(config: Config) -> list[str]:
    """The command that shows the node."""
    return kubectl(config, "get", "node", config.node, "--output=json")


def parse(text: str) -> KubernetesNode | None:
    """The node in kubectl's JSON; None for other text."""
    try:
        found = json.loads(text)
        notes = found["metadata"].get("annotations", {})
        return KubernetesNode(bool(found["spec"].get("unschedulable")), notes.get(ANNOTATION, ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def drain_by_hand(config: Config) -> str:
    """The command of an administrator that drains the node."""
    return f"kubectl drain {config.node} --ignore-daemonsets"


def carry_out(order: Order, config: Config, limit_s: float) -> CommandResult:
    """Cordon the node with the reason, or uncordon it without one, in one request."""
    drains = order.do == "drain"
    change = {
        "metadata": {"annotations": {ANNOTATION: order.reason if drains else None}},
        "spec": {"unschedulable": True if drains else None},
    }
    return run(
        kubectl(config, "patch", "node", config.node, "--type=merge", f"--patch={json.dumps(change)}"),
        limit_s,
    )


def clear(config: Config, limit_s: float) -> str:
    """Evict pods with GPUs, which have wrong data or hang; what was done, in words.

    A disruption budget may refuse, and the time may be over: the next run continues.
    """
    until = time.monotonic() + limit_s
    where = f"--field-selector=spec.nodeName={config.node}"
    done = run(kubectl(config, "get", "pods", "--all-namespaces", where, "--output=json"), limit_s / 2)
    try:
        pods = [pod["metadata"] for pod in json.loads(done.out)["items"] if holds_gpus(pod)]
    except (ValueError, KeyError, TypeError):
        return f"pods are unknown: {done.message}"
    results: list[str] = []
    for number, about in enumerate(pods):
        left_s = until - time.monotonic()
        if left_s < 1:
            return "; ".join([*results, f"{len(pods) - number} pods stay until the next run"])
        wanted = {"name": about["name"], "namespace": about["namespace"]}
        body = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": wanted})
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}/eviction"
        answer = run(kubectl(config, "create", "--raw", path, "--filename=-"), left_s, body)
        name = f"{about['namespace']}/{about['name']}"
        results.append(f"evicted {name}" if answer.code == 0 else f"{name} stays: {answer.message}")
    return "; ".join(results)


def holds_gpus(pod: dict[str, Any]) -> bool:
    """Whether a pod runs with GPUs, MIG devices, shares of them or claims, and may be evicted."""
    about, spec = pod["metadata"], pod["spec"]
    if {owner["kind"] for owner in about.get("ownerReferences", [])} & OF_NODE:
        return False
    if "deletionTimestamp" in about or pod.get("status", {}).get("phase") in ENDED:
        return False
    containers = [*spec.get("containers", []), *spec.get("initContainers", [])]
    limits = [each.get("resources", {}).get("limits") or {} for each in containers]
    return bool(spec.get("resourceClaims")) or any(
        name.startswith("nvidia.com/") for each in limits for name in each
    )
