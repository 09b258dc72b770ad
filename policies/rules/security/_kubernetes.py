"""Kubernetes objects: their names, and the pods that they create, in objects of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpufleet.resources.kubernetes import group_and_kind
from gpufleet.resources.resource import UNKNOWN, Resource

SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
"""Namespaces of the cluster itself: who may create pods there administers the cluster."""

PRIVILEGED_NAMESPACES = (*SYSTEM_NAMESPACES, "gpu-operator")
"""Namespaces without a profile of pod security: who may create pods there takes over nodes."""

HOST_FLAGS = ("hostNetwork", "hostPID", "hostIPC")

CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def kind_of(resource: Resource) -> str:
    """Return the kind of an object; empty for other resources, and for those of Pulumi's own modules."""
    return group_and_kind(resource.type)[1]


def name_of(resource: Resource) -> Any:
    """Return the object's name; None if Kubernetes or Pulumi generates it."""
    return resource.get("metadata.name")


def namespace_of(resource: Resource) -> Any:
    """Return the object's namespace, `default` if it is not set."""
    return resource.get("metadata.namespace", "default")


def pod_specs(resource: Resource) -> Iterator[str]:
    """Yield the path of each pod specification: of a pod, a workload, or any custom resource with pods.

    A patch, or a custom resource that adds its own containers, has a part of a specification.
    """
    yield from _specs(resource.props, "")


def _specs(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        if _is_of_pod(value):
            yield path
        for key, item in value.items():
            if key != "status":
                yield from _specs(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, item in enumerate(value):
            yield from _specs(item, f"{path}[{index}]")


def _is_of_pod(value: Mapping[str, Any]) -> bool:
    volumes = value.get("volumes")
    mounts = volumes if isinstance(volumes, Sequence) else ()
    return (
        any(_containers(value.get(name)) for name in CONTAINERS)
        or any(value.get(name) is not None for name in HOST_FLAGS)
        or any(isinstance(each, Mapping) and each.get("hostPath") is not None for each in mounts)
    )


def _containers(value: Any) -> bool:
    return value is UNKNOWN or (isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0)
