"""Security contexts of pods that need no rights on their node (Kubernetes, Pod Security Standards)."""

from __future__ import annotations

import pulumi_kubernetes as k8s

NOBODY = 65534
"""The user and group without files, in every image."""


def unprivileged(*, read_only: bool = True) -> k8s.core.v1.SecurityContextArgs:
    """Return the context of a container without capabilities; `read_only` is its root file system."""
    return k8s.core.v1.SecurityContextArgs(
        allow_privilege_escalation=False,
        read_only_root_filesystem=True if read_only else None,
        capabilities=k8s.core.v1.CapabilitiesArgs(drop=["ALL"]),
    )


def as_nobody(*, fs_group: int | None = None) -> k8s.core.v1.PodSecurityContextArgs:
    """Return the context of a pod that meets the standard "restricted"; `fs_group` owns its volumes."""
    return k8s.core.v1.PodSecurityContextArgs(
        run_as_non_root=True,
        run_as_user=NOBODY,
        run_as_group=NOBODY,
        fs_group=fs_group,
        seccomp_profile=k8s.core.v1.SeccompProfileArgs(type="RuntimeDefault"),
    )
