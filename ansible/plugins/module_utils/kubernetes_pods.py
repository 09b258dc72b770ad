"""Pods of a node, with the rights of its kubelet: which belong to it, which use devices, and eviction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError

Kubectl = Callable[..., "tuple[int, str, str]"]
_ENDED = ("Succeeded", "Failed")
# They belong to the node: it starts them again, drained or not.
_OF_NODE = {"DaemonSet", "Node"}
# A static pod has another UID on its node than its mirror pod in the API; the mirror pod's annotation has it
# (Kubernetes, pkg/kubelet/types/pod_update.go, ConfigHashAnnotationKey; pkg/kubelet/config/common.go).
_STATIC_UID = "kubernetes.io/config.hash"
POLL_S = 2


def running(node: str, kubectl: Kubectl) -> list[dict[str, Any]]:
    """All pods that run on the node."""
    # A kubelet may list only pods of its own node.
    code, out, err = kubectl(
        "get", "pods", "--all-namespaces", "--field-selector", f"spec.nodeName={node}", "-o", "json"
    )
    if code:
        raise RefusalError(
            f"Kubernetes does not say which pods run on {node}: {err}. Run again when the API server answers."
        )
    return [pod for pod in json.loads(out)["items"] if pod.get("status", {}).get("phase") not in _ENDED]


def movable(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pods that can run elsewhere: without those of daemon sets and static pods."""
    return [pod for pod in pods if not _owners(pod) & _OF_NODE]


def uids_of_node(pods: list[dict[str, Any]]) -> frozenset[str]:
    """UIDs, as in the names of cgroups, of the pods of daemon sets and static pods."""
    found = [pod["metadata"] for pod in pods if _owners(pod) & _OF_NODE]
    return frozenset(
        uid
        for about in found
        for uid in (about.get("uid"), (about.get("annotations") or {}).get(_STATIC_UID))
        if uid
    )


def holding(pods: list[dict[str, Any]], *, evicted: bool) -> list[str]:
    """Pods that must end by themselves, as `pod team-a/train-0 (nvidia.com/gpu: 8)`.

    These use devices. If the others are to be `evicted`, also those that nothing would start again elsewhere.
    """
    found = []
    for pod in pods:
        why = ", ".join(sorted(_devices(pod["spec"])))
        if not why and evicted and not _owners(pod):
            why = "no controller starts it again"
        if why:
            found.append(f"pod {name_of(pod)} ({why})")
    return sorted(found)


def evict(node: str, kubectl: Kubectl, wait_s: float) -> str:
    """Evict all pods and wait until they are gone; what remains after `wait_s` seconds, as a sentence.

    Disruption budgets count: an eviction that they refuse is tried again until then.
    """
    deadline = time.monotonic() + wait_s
    while pods := movable(running(node, kubectl)):
        refused = {}
        for pod in pods:
            about = pod["metadata"]
            if "deletionTimestamp" in about:
                continue
            code, _, err = kubectl(
                *(
                    "create",
                    "--raw",
                    f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}/eviction",
                ),
                *("-f", "-"),
                given=json.dumps(_eviction(about)),
            )
            if code and "not found" not in err.lower():
                refused[name_of(pod)] = err
        if time.monotonic() >= deadline:
            left = "; ".join(f"{name_of(pod)} {refused.get(name_of(pod), '')}".strip() for pod in pods[:5])
            return f"pods did not leave {node} within {wait_s:.0f} s: {left}."
        time.sleep(POLL_S)
    return ""


def name_of(pod: dict[str, Any]) -> str:
    """Namespace and name."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _eviction(about: dict[str, Any]) -> dict[str, Any]:
    wanted = {"name": about["name"], "namespace": about["namespace"]}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": wanted}


def _owners(pod: dict[str, Any]) -> set[str]:
    return {owner["kind"] for owner in pod["metadata"].get("ownerReferences", [])}


def _devices(spec: dict[str, Any]) -> Iterator[str]:
    """Extended resources (`nvidia.com/gpu: 8`) and resource claims of a pod."""
    for container in [*spec.get("containers", []), *spec.get("initContainers", [])]:
        limits = container.get("resources", {}).get("limits") or {}
        yield from (f"{name}: {count}" for name, count in limits.items() if "/" in name)
    yield from (f"claim {claim['name']}" for claim in spec.get("resourceClaims", []))
