"""Namespaces enforce a profile of pod security."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._kubernetes import PRIVILEGED_NAMESPACES, kind_of, name_of
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Framework, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown

LABEL = "pod-security.kubernetes.io/enforce"
_TYPE = "kubernetes:core/v1:Namespace"


class KubernetesNamespacesGuardedSettings(Settings):
    """Namespaces without a profile."""

    privileged: tuple[str, ...] = Field(
        PRIVILEGED_NAMESPACES,
        description="Namespaces that may allow privileged pods: users of the cluster create none there",
    )


@resource_rule(
    "kubernetes-namespaces-guarded",
    group="security",
    title="Namespaces enforce a profile of pod security",
    why="Rules see the pods of the stack, and Kubernetes those of everyone. Without the label, or with "
    "`privileged`, whoever may create pods in the namespace takes over nodes.",
    fix="Set the label `pod-security.kubernetes.io/enforce` to `baseline` or `restricted`.",
    severity="high",
    framework=Framework(
        "Kubernetes Pod Security Admission",
        "enforce",
        "https://kubernetes.io/docs/concepts/security/pod-security-admission/",
    ),
    types=(),
    settings=KubernetesNamespacesGuardedSettings,
    passes=Example(({"type": _TYPE, "props": {"metadata": {"name": "ml", "labels": {LABEL: "baseline"}}}},)),
    fails=Example(({"type": _TYPE, "props": {"metadata": {"name": "ml", "labels": {LABEL: "privileged"}}}},)),
)
def kubernetes_namespaces_guarded(
    resource: Resource, context: RuleContext[KubernetesNamespacesGuardedSettings]
) -> Iterator[Violation]:
    """Check each namespace of the stack."""
    if kind_of(resource) != "Namespace" or not resource.type.startswith("kubernetes:core/"):
        return
    labels = resource.get("metadata.labels", {})
    value = labels if is_unknown(labels) else labels.get(LABEL) if isinstance(labels, dict) else None
    if value in ("baseline", "restricted"):
        if resource.ignores("metadata.labels"):
            value = "under ignoreChanges"
        else:
            return
    name = name_of(resource)
    if name in context.settings.privileged:
        return
    shown = "not known yet" if is_unknown(value) else "not set" if value is None else repr(value)
    yield Violation(
        f"the label {LABEL} is {shown}, and it must be baseline or restricted",
        "set it to baseline",
        prop="metadata.labels",
        unknown=is_unknown(value),
    )
