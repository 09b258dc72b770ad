"""Kubernetes's own roles and subjects, and what the rules of a role give.

Source: Kubernetes documentation, "Using RBAC Authorization" and "Role Based Access Control Good Practices"
(privilege escalation risks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpufleet.policies.rules.security._patterns import matches
from gpufleet.resources.resource import Resource, holds_unknown

ANONYMOUS = ("system:anonymous", "system:unauthenticated")
EVERYONE = ("system:authenticated", "system:serviceaccounts")
MASTERS = "system:masters"

FOR_ANONYMOUS = ("system:public-info-viewer",)
FOR_EVERYONE = (
    *FOR_ANONYMOUS,
    "system:basic-user",
    "system:discovery",
    "system:service-account-issuer-discovery",
)
FOR_SERVICES = (
    *FOR_EVERYONE,
    "system:auth-delegator",
    "system:kube-dns",
    "system:monitoring",
    "system:node-problem-detector",
    "system:node-proxier",
    "system:persistent-volume-provisioner",
    "system:volume-scheduler",
)
"""Kubernetes's roles that give no rights of others."""

ADMINISTRATORS = ("cluster-admin",)
EDITORS = ("admin", "edit")
"""Roles that read secrets and create pods: for a namespace, not for the cluster."""

_CORE = ("", "*")
_RBAC = "rbac.authorization.k8s.io"
_EXECUTES = ("pods/exec", "pods/attach", "pods/ephemeralcontainers", "nodes/proxy", "serviceaccounts/token")
_READS = ("get", "list", "watch")
_WRITES = ("create", "update", "patch", "*")
_GAINS = ("escalate", "bind", "impersonate")
OF_CLUSTER = ("system:", "eks:")
"""Beginnings of the names that Kubernetes and EKS give to their own roles, users and groups."""

_WORKLOADS: Mapping[str, tuple[str, ...]] = {
    "": ("pods", "replicationcontrollers"),
    "apps": ("deployments", "daemonsets", "statefulsets", "replicasets"),
    "batch": ("jobs", "cronjobs"),
}
"""API group -> kinds whose pods run as any service account of their namespace."""

_CONTROLS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "": ("namespaces", ("update", "patch", "*"), "changes the profiles of pod security of namespaces"),
    "volumes": ("persistentvolumes", ("create", "*"), "creates volumes with paths of any node"),
    "admissionregistration.k8s.io": ("*", _WRITES, "writes webhooks, which see and change every object"),
    "apiregistration.k8s.io": ("*", _WRITES, "writes API services, which receive the requests of others"),
}
"""API group (`volumes`: the core group) -> kind, verbs, and what they give."""

_PRIVILEGED_GROUPS = (*_CORE, _RBAC, "admissionregistration.k8s.io", "certificates.k8s.io")


def power(resource: Resource, path: str, *, cluster: bool, patches_pods: bool = False) -> Iterator[str]:
    """Yield what a rule of a role gives beyond its purpose; `cluster`: in all namespaces or the system's.

    `patches_pods`: the role is reviewed, and may change pods that exist, but create none.
    """
    if holds_unknown(resource.get(path)):
        yield "is not known yet"
        return
    verbs, groups, kinds = (
        _texts(resource, f"{path}.{each}") for each in ("verbs", "apiGroups", "resources")
    )
    gains = [each for each in _GAINS if each in verbs]
    names = _texts(resource, f"{path}.resourceNames")
    own = any(each.startswith(OF_CLUSTER) for each in names)
    if gains and (not names or own or set(names) & {*ADMINISTRATORS, *EDITORS, "*"}):
        yield f"gives {gains[0]}, and with it rights that its holder does not have"
    if not cluster:
        return
    if "*" in verbs and (
        ("*" in kinds and set(groups) & set(_PRIVILEGED_GROUPS))
        or (_RBAC in groups and kinds)
        or "*" in _texts(resource, f"{path}.nonResourceURLs")
    ):
        yield "gives everything"
    elif set(groups) & set(_CORE):
        if not names and set(verbs) & {*_READS, "*"} and any(matches(each, "secrets") for each in kinds):
            yield "reads all secrets"
        for each in _EXECUTES:
            if any(matches(kind, each) for kind in kinds) and set(verbs) & {"get", *_WRITES}:
                yield f"gives {each}, and with it the rights of other pods"
    reviewed = patches_pods and set(kinds) <= {"pods"} and "create" not in verbs and "*" not in verbs
    yield from () if reviewed else _creates(verbs, groups, kinds)
    if "approve" in verbs or (
        "certificatesigningrequests/approval" in kinds and set(verbs) & {"update", "patch", "*"}
    ):
        yield "approves certificates for any user"


def _creates(verbs: Sequence[str], groups: Sequence[str], kinds: Sequence[str]) -> Iterator[str]:
    """Yield what objects of all namespaces, or of the cluster, let their author do."""
    for group, workloads in _WORKLOADS.items():
        found = [each for each in workloads if any(matches(kind, each) for kind in kinds)]
        if found and {group, "*"} & set(groups) and set(_WRITES) & set(verbs):
            yield f"writes {found[0]}, and with them runs code as any service account"
    for group, (wanted, writes, what) in _CONTROLS.items():
        of_group = {"" if group == "volumes" else group, "*"} & set(groups)
        named = bool(kinds) if wanted == "*" else any(matches(kind, wanted) for kind in kinds)
        if of_group and named and set(writes) & set(verbs):
            yield what


def _texts(resource: Resource, path: str) -> Sequence[str]:
    return [str(value).strip().lower() for _, value in resource.items(path)]


def selects_all(selector: Any) -> bool:
    """Return whether the selector of an aggregated role takes rules from any role, or of the editors'."""
    if not isinstance(selector, dict):
        return True
    labels = selector.get("matchLabels") or {}
    if not labels and not selector.get("matchExpressions"):
        return True
    return any(str(key).endswith(("aggregate-to-admin", "aggregate-to-edit")) for key in labels)
