"""Load balancers are inside the network."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._kubernetes import kind_of
from gpufleet.policies.rules.security._properties import is_on
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown

_BALANCER = "aws:lb/loadBalancer:LoadBalancer"
_SCHEME = "service.beta.kubernetes.io/aws-load-balancer-scheme"
_INTERNAL = "service.beta.kubernetes.io/aws-load-balancer-internal"
_INGRESS = "alb.ingress.kubernetes.io/scheme"


@resource_rule(
    "no-public-load-balancers",
    group="security",
    title="Load balancers are inside the network",
    why="A load balancer that faces the internet makes the nodes and pods behind it reachable from there, "
    "although they have no public address.",
    fix="Set `internal: true`; for a Service or Ingress set the scheme's annotation to `internal`.",
    severity="medium",
    enforcement="advisory",
    types=(),
    passes=Example(({"type": _BALANCER, "props": {"internal": True}},)),
    fails=Example(({"type": _BALANCER, "props": {"internal": False}},)),
)
def no_public_load_balancers(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check load balancers of AWS, and services and ingresses of Kubernetes. Without a scheme AWS's own are
    public, and so is a service of a cluster without AWS's controller.
    """
    if resource.type.startswith("aws:") and resource.type.endswith("oadBalancer:LoadBalancer"):
        if not is_on(resource.get("internal")) and resource.get("loadBalancerType") != "gateway":
            yield _violation(resource, "internal", resource.show("internal"), "set it to true")
        return
    kind = kind_of(resource)
    notes = resource.get("metadata.annotations", {})
    if kind == "Service" and resource.get("spec.type") == "LoadBalancer":
        inside = isinstance(notes, dict) and (
            notes.get(_SCHEME) == "internal" or (is_on(notes.get(_INTERNAL)) and _SCHEME not in notes)
        )
        if not inside:
            yield _violation(
                resource, "metadata.annotations", "without the scheme", f"set {_SCHEME} to internal"
            )
    elif kind == "Ingress" and isinstance(notes, dict) and notes.get(_INGRESS, "internal") != "internal":
        yield _violation(resource, "metadata.annotations", "of another scheme", f"set {_INGRESS} to internal")


def _violation(resource: Resource, path: str, shown: str, remedy: str) -> Violation:
    return Violation(
        f"{path} is {shown}, and load balancers must be internal",
        remedy,
        prop=path,
        unknown=is_unknown(resource.get(path)),
    )
