"""Kubernetes objects that create charged resources: nodes, load balancers, volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpufleet.resources.kubernetes import group_and_kind
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import UNKNOWN, Resource

_BALANCER = "it can create a load balancer, for which no price is known"
_VOLUME = "creates a volume of its storage class, for which no price is known"
_TEMPLATES = ("volumeClaimTemplate", "volumeClaimTemplates")


def charged(resource: Resource) -> str:
    """Return why an object's cost is unknown, empty if it creates no charged resource.

    Applies to all API versions, and to patches of existing objects.
    """
    group, kind = group_and_kind(resource.type)
    if group.startswith("karpenter"):
        return "Karpenter launches as many nodes as pods request"
    if kind in ("Ingress", "Gateway"):
        return _BALANCER
    if (group, kind) == ("core", "Service"):
        wanted = resource.get("spec.type")
        if wanted is UNKNOWN or wanted == "LoadBalancer":
            return "a service of type LoadBalancer creates a load balancer, for which no price is known"
        return ""
    if (group, kind) == ("core", "PersistentVolumeClaim"):
        return "" if _bound(resource) else f"a claim {_VOLUME}"
    spec = resource.props.get("spec")
    return f"its volumeClaimTemplate {_VOLUME}" if spec is UNKNOWN or _claims(spec) else ""


def _bound(claim: Resource) -> bool:
    """Return whether a claim uses an existing volume: without a class, none is created.

    The outputs of all claims have a volume once it is created.
    """
    own = declared(claim)
    return own.get("spec.storageClassName") == "" or isinstance(own.get("spec.volumeName"), str)


def _claims(value: Any) -> bool:
    if isinstance(value, Mapping):
        given = [value.get(name) for name in _TEMPLATES]
        return any(each is UNKNOWN or each for each in given) or any(map(_claims, value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(_claims(each) for each in value)
    return False
