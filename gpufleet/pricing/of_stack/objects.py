"""Kubernetes objects that make something which is charged: nodes, load balancers, volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpufleet.resources.kubernetes import group_and_kind
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import UNKNOWN, Resource

_BALANCER = "it may make a load balancer, of which no price was read"
_VOLUME = "makes a volume of its storage class, of which no price was read"
_TEMPLATES = ("volumeClaimTemplate", "volumeClaimTemplates")


def charged(resource: Resource) -> str:
    """Why an object's cost is unknown; empty where it makes nothing that is charged by itself.

    The kinds count in all versions, and as a patch of an object that is there.
    """
    group, kind = group_and_kind(resource.type)
    if group.startswith("karpenter"):
        return "Karpenter launches as many nodes as pods ask for"
    if kind in ("Ingress", "Gateway"):
        return _BALANCER
    if (group, kind) == ("core", "Service"):
        wanted = resource.get("spec.type")
        if wanted is UNKNOWN or wanted == "LoadBalancer":
            return "a service of type LoadBalancer makes a load balancer, of which no price was read"
        return ""
    if (group, kind) == ("core", "PersistentVolumeClaim"):
        return "" if _bound(resource) else f"a claim {_VOLUME}"
    spec = resource.props.get("spec")
    return f"its volumeClaimTemplate {_VOLUME}" if spec is UNKNOWN or _claims(spec) else ""


def _bound(claim: Resource) -> bool:
    """Whether a claim takes a volume that is there: without a class, none is made for it.

    The outputs of any claim name a volume, once it is made.
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
