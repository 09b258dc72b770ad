"""Kubernetes objects of a stack: API group and kind, and which of them create unseen objects."""

from __future__ import annotations

from functools import lru_cache

_NAMED_BY_PULUMI = frozenset({"helm.sh", "yaml", "kustomize"})
"""Modules of Pulumi's Kubernetes package that are not API groups."""

_BUILT_IN = frozenset({"core", "meta", "apps", "autoscaling", "batch", "events", "extensions", "policy"})
"""Kubernetes' own API groups without a domain; those with one end in `.k8s.io`."""

RELEASE = "kubernetes:helm.sh/v3:Release"
"""A Helm release: previews do not show what its chart creates."""


@lru_cache(maxsize=1024)
def group_and_kind(token: str) -> tuple[str, str]:
    """Return API group and kind of a type: ("core", "Service") for the service's `ServicePatch` too.

    `("", "")` for types outside the package.
    """
    package, _, rest = token.partition(":")
    if package != "kubernetes":
        return "", ""
    module, _, kind = rest.rpartition(":")
    return module.partition("/")[0], kind.removesuffix("Patch") or kind


def is_list(token: str) -> bool:
    """Return whether the type contains whole objects of another kind, such as `ServiceList`."""
    _, kind = group_and_kind(token)
    return kind.endswith("List")


def foreign_group(token: str) -> str:
    """Return the API group of a custom resource, whose controller may create anything; empty for others.

    CustomResourceDefinitions are Kubernetes' own and create nothing themselves.
    """
    group, kind = group_and_kind(token)
    if not kind or group in _BUILT_IN or group in _NAMED_BY_PULUMI:
        return ""
    # Not `x-k8s.io`, which projects use for their own resources.
    return "" if group.endswith(".k8s.io") else group
