"""Kubernetes's own roles and subjects, and what the rules of a role give.

Source: Kubernetes documentation, "Using RBAC Authorization" and "Role Based Access Control Good Practices"
(privilege escalation risks).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
_GAINS = ("escalate", "bind", "impersonate")
_PRIVILEGED_GROUPS = (*_CORE, _RBAC, "admissionregistration.k8s.io", "certificates.k8s.io")


def power(resource: Resource, path: str, *, cluster: bool) -> Iterator[str]:
    """Yield what a rule of a role gives beyond its purpose; `cluster`: in all namespaces or the system's."""
    if holds_unknown(resource.get(path)):
        yield "is not known yet"
        return
    verbs, groups, kinds = (
        _texts(resource, f"{path}.{each}") for each in ("verbs", "apiGroups", "resources")
    )
    gains = [each for each in _GAINS if each in verbs]
    names = _texts(resource, f"{path}.resourceNames")
    if gains and (not names or set(names) & {*ADMINISTRATORS, *EDITORS, MASTERS, "*"}):
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
            if each in kinds and set(verbs) & {"get", "create", "*"}:
                yield f"gives {each}, and with it the rights of other pods"
    if "approve" in verbs or (
        "certificatesigningrequests/approval" in kinds and set(verbs) & {"update", "patch", "*"}
    ):
        yield "approves certificates for any user"


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
