"""Kubernetes roles and bindings give nobody the rights of others."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.kinds import NEURON_DEVICE_PLUGIN, NEURON_EXTENSION, NOTICES_SERVICE_ACCOUNT
from gpufleet.policies.rules.security._kubernetes import (
    PRIVILEGED_NAMESPACES,
    kind_of,
    name_of,
    namespace_of,
)
from gpufleet.policies.rules.security._rbac import (
    ADMINISTRATORS,
    ANONYMOUS,
    EDITORS,
    EVERYONE,
    FOR_ANONYMOUS,
    FOR_EVERYONE,
    FOR_SERVICES,
    MASTERS,
    OF_CLUSTER,
    power,
    selects_all,
)
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Framework, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown, shown

_BINDING = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding"


class KubernetesRbacRestrictedSettings(Settings):
    """Groups that administer clusters, and reviewed roles of controllers."""

    groups: tuple[str, ...] = Field(
        (), description="Groups that may be bound to cluster-admin, besides `kubernetes.admins`"
    )
    controllers: tuple[str, ...] = Field(
        (), description="Names of reviewed ClusterRoles, of controllers that create pods or volumes"
    )


def _example(group: str, role: str) -> Example:
    subject = {"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"}
    props = {"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [subject]}
    return Example(({"type": _BINDING, "props": props},))


@resource_rule(
    "kubernetes-rbac-restricted",
    group="security",
    title="Kubernetes roles and bindings give nobody the rights of others",
    why="A binding to system:anonymous opens the cluster to everyone who reaches its API, and "
    "system:authenticated is every pod. Roles with wildcards, secrets, `escalate`, `bind` or `impersonate` "
    "make an administrator of any user, and so do roles that create pods, volumes or webhooks everywhere.",
    fix="Bind the groups that need it to a role with listed resources; list administrators in "
    "`kubernetes.admins` of the fleet file.",
    severity="critical",
    framework=Framework(
        "Kubernetes RBAC Good Practices",
        "Privilege escalation risks",
        "https://kubernetes.io/docs/concepts/security/rbac-good-practices/",
    ),
    types=(),
    settings=KubernetesRbacRestrictedSettings,
    passes=_example("researchers", "view"),
    fails=_example("system:unauthenticated", "view"),
)
def kubernetes_rbac_restricted(
    resource: Resource, context: RuleContext[KubernetesRbacRestrictedSettings]
) -> Iterator[Violation]:
    """Check roles and bindings of a cluster and of namespaces, and the map of EKS's older access mode."""
    kind = kind_of(resource)
    if kind in ("ClusterRole", "Role"):
        if kind != "ClusterRole" or name_of(resource) not in context.settings.controllers:
            yield from _role(resource, cluster=kind == "ClusterRole")
    elif kind in ("ClusterRoleBinding", "RoleBinding"):
        yield from _binding(resource, context.settings, cluster=kind == "ClusterRoleBinding")
    elif kind in _WEBHOOKS:
        yield from _webhook(resource)
    elif kind == "ConfigMap" and name_of(resource) == "aws-auth" and MASTERS in str(resource.get("data")):
        yield _violation(
            resource,
            "data",
            f"data maps identities to {MASTERS}, and administrators must be in kubernetes.admins",
        )


def _webhook(resource: Resource) -> Iterator[Violation]:
    for path, _ in resource.items("webhooks"):
        address = resource.get(f"{path}.clientConfig.url")
        if address is not None:
            yield _violation(
                resource,
                f"{path}.clientConfig.url",
                f"{path}.clientConfig.url is {resource.show(f'{path}.clientConfig.url')}, which gets the "
                "objects of others, and webhooks must be services of the cluster",
            )


_CHANGES_PODS = (NOTICES_SERVICE_ACCOUNT, NEURON_DEVICE_PLUGIN, NEURON_EXTENSION)
"""Roles of this project that change pods: they write annotations of pods that exist."""

_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def _role(resource: Resource, *, cluster: bool) -> Iterator[Violation]:
    wide = cluster or namespace_of(resource) in PRIVILEGED_NAMESPACES
    reviewed = name_of(resource) in _CHANGES_PODS
    for path, _ in resource.items("rules"):
        for reason in power(resource, path, cluster=wide, patches_pods=reviewed):
            yield _violation(
                resource, path, f"{path} {reason}, and a role must give nobody the rights of others"
            )
    for path, selector in resource.items("aggregationRule.clusterRoleSelectors"):
        if selects_all(selector):
            yield _violation(
                resource,
                path,
                f"{path} is {resource.show(path)}, and a role must not take the rules of unlisted roles",
            )


def _binding(
    resource: Resource, settings: KubernetesRbacRestrictedSettings, *, cluster: bool
) -> Iterator[Violation]:
    role = resource.get("roleRef.name")
    wide = cluster or namespace_of(resource) in PRIVILEGED_NAMESPACES
    subjects = [
        (path, resource.get(f"{path}.kind"), resource.get(f"{path}.name"))
        for path, _ in resource.items("subjects")
    ]
    for path, kind, name in subjects:
        yield from _subject(resource, path, kind, name, role)
    own = resource.get("roleRef.kind") == "ClusterRole"
    listed = bool(subjects) and all(kind == "Group" and name in settings.groups for _, kind, name in subjects)
    if is_unknown(role) or (own and not listed and _powerful(str(role), wide=wide)):
        yield _violation(
            resource,
            "roleRef.name",
            f"roleRef.name is {resource.show('roleRef.name')}, and administrators must be in "
            "kubernetes.admins",
        )


def _subject(resource: Resource, path: str, kind: object, name: object, role: object) -> Iterator[Violation]:
    if is_unknown(kind) or is_unknown(name):
        yield _violation(
            resource, path, f"{path} is not known yet, and subjects must be listed", unknown=True
        )
    elif kind in ("Group", "User"):
        text = str(name).strip()
        why = ""
        if text == MASTERS:
            why = "administers every cluster, and no binding can be removed from it"
        elif text in ANONYMOUS and role not in FOR_ANONYMOUS:
            why = "is everyone who reaches the API"
        elif text in EVERYONE and role not in FOR_EVERYONE:
            why = "is every user or pod of the cluster"
        if why:
            yield _violation(
                resource, path, f"{path} is {shown(text)}, which {why}; subjects must be users or groups"
            )


def _powerful(role: str, *, wide: bool) -> bool:
    if role in ADMINISTRATORS:
        return True
    return wide and (role in EDITORS or (role.startswith(OF_CLUSTER) and role not in FOR_SERVICES))


def _violation(resource: Resource, path: str, message: str, *, unknown: bool = False) -> Violation:
    return Violation(
        message,
        "list the users or groups, and the resources that they need",
        prop=path,
        unknown=unknown or is_unknown(resource.get(path)),
    )
