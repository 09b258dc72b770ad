"""Kubernetes objects as a stack holds them: their API group and kind, and what makes things unseen."""

from __future__ import annotations

from functools import lru_cache

_NAMED_BY_PULUMI = frozenset({"helm.sh", "yaml", "kustomize"})
"""Modules of Pulumi's Kubernetes package that are no API groups."""

_BUILT_IN = frozenset({"core", "meta", "apps", "autoscaling", "batch", "events", "extensions", "policy"})
"""Kubernetes' own API groups without a domain; those with one end in `.k8s.io`."""

RELEASE = "kubernetes:helm.sh/v3:Release"
"""A Helm release: what its chart makes is in no preview."""


@lru_cache(maxsize=1024)
def group_and_kind(token: str) -> tuple[str, str]:
    """API group and kind of a type: ("core", "Service") for the service's `ServicePatch` too.

    `("", "")` for what is not of the package.
    """
    package, _, rest = token.partition(":")
    if package != "kubernetes":
        return "", ""
    module, _, kind = rest.rpartition(":")
    return module.partition("/")[0], kind.removesuffix("Patch") or kind


def is_list(token: str) -> bool:
    """Whether the type holds whole objects of another kind, such as `ServiceList`."""
    _, kind = group_and_kind(token)
    return kind.endswith("List")


def foreign_group(token: str) -> str:
    """The API group of a custom resource, of which a controller makes what it likes; empty for others.

    CustomResourceDefinitions register nothing by themselves: those are Kubernetes' own.
    """
    group, kind = group_and_kind(token)
    if not kind or group in _BUILT_IN or group in _NAMED_BY_PULUMI:
        return ""
    # Not `x-k8s.io`: that is where projects keep their own.
    return "" if group.endswith(".k8s.io") else group
