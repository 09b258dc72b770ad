"""A Kubernetes API of nodes and pods, as far as the handler uses it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from gpufleet.notices.kubernetes_api import KubernetesApiError


class FakeApi:
    """Answers `list` and `call` of `KubernetesApi`; `calls` are the changes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[tuple[str, str], dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []

    def node(self, name: str, instance: str) -> None:
        spec = {"providerID": f"aws:///us-east-1a/{instance}"}
        self.nodes[name] = {"metadata": {"name": name, "resourceVersion": "1"}, "spec": spec}

    def pod(
        self, name: str, node: str, *, namespace: str = "research", owner: str = "Job", **labels: str
    ) -> None:
        self.pods[namespace, name] = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{name}-{len(self.calls)}",
                "labels": {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()},
                "ownerReferences": [{"kind": owner}],
            },
            "spec": {"nodeName": node},
            "status": {"phase": "Running"},
        }

    def list(self, path: str, query: str = "") -> Sequence[Mapping[str, Any]]:
        with self.lock:
            if path == "/api/v1/nodes":
                return list(self.nodes.values())
            found = list(self.pods.values())
        if path != "/api/v1/pods":
            found = [pod for pod in found if pod["metadata"]["namespace"] == path.split("/")[4]]
        field, _, wanted = unquote(query).partition("=")
        if field == "fieldSelector":
            key, _, value = wanted.partition("=")
            found = [
                pod
                for pod in found
                if value == (pod["spec"]["nodeName"] if key == "spec.nodeName" else pod["metadata"]["name"])
            ]
        elif field == "labelSelector":
            key, _, value = wanted.partition("=")
            found = [pod for pod in found if pod["metadata"]["labels"].get(key) == value]
        return found

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        parts = path.split("/")
        with self.lock:
            self.calls.append((method, path))
            pod = self.pods.get((parts[4], parts[6])) if parts[3] != "nodes" else None
            target = pod or self.nodes.get(parts[4])
            if target is None:
                raise KubernetesApiError(404, "not found")
            if method == "DELETE":
                wanted = (body or {})["preconditions"]["uid"]
                if target["metadata"]["uid"] != wanted:
                    raise KubernetesApiError(409, "the UID in the precondition does not match")
                del self.pods[parts[4], parts[6]]
                return {}
            assert body is not None
            meta = target["metadata"]
            if body["metadata"].get("resourceVersion") not in (None, meta.get("resourceVersion")):
                raise KubernetesApiError(409, "the object has been modified")
            _merge(target, body)
            if "resourceVersion" in meta:
                meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)
            return target


def _merge(target: dict[str, Any], change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value
