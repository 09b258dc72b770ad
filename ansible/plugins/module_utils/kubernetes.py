"""Shared code of Kubernetes modules: host programs, releases, and the cluster membership of a host."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.gpufleet.rack.plugins.module_utils.cluster import LOST
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

ADMIN = "/etc/kubernetes/admin.conf"
KUBELET = "etc/kubernetes/kubelet.conf"
API_SERVER = "etc/kubernetes/manifests/kube-apiserver.yaml"
STARTED = "var/lib/gpufleet/kubeadm.started"
STOPPED = "etc/kubernetes/gpufleet/restore/stopped"
"""Folder in which a restore of etcd keeps the manifests of stopped components."""
AUTHORITIES = "etc/kubernetes/gpufleet/authorities"
"""Certificate authorities that a restore provides for a new cluster."""
REFUSED_ADMIN = 'is forbidden: User "kubernetes-admin"'
"""In an answer to the administrator of kubeadm's admin.conf, who may do everything."""
STARTING_S, PAUSE_S = 60.0, 1.0
"""Seconds for which such an answer is not final, and between two requests."""
_RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


def purpose_of_token(host: str) -> str:
    """The description of a bootstrap token with which a host joins."""
    return f"gpufleet: {host} joins"


class Release(NamedTuple):
    """A release of Kubernetes, compared by its numbers."""

    major: int
    minor: int
    patch: int

    @classmethod
    def of(cls, text: str) -> Release:
        """Parse `1.35.4` or `v1.35.4`, with or without a package suffix; raises for other text."""
        hit = _RELEASE.match(text.strip())
        if hit is None:
            raise RefusalError(f"{text!r} is no release of Kubernetes; write it as 1.35.4.")
        return cls(*(int(part) for part in hit.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def follow(now: Release, wanted: Release) -> None:
    """Raise unless a cluster can be upgraded from `now` to `wanted` in one step (version skew policy)."""
    if wanted < now:
        raise RefusalError(
            f"Kubernetes {now} runs here, and {wanted} is older: etcd and the API's objects do not go back."
            f" Write the version {now.major}.{now.minor} in the fleet file, or restore a snapshot of the"
            " older cluster."
        )
    skipped = wanted.minor - now.minor - 1
    if wanted.major != now.major or skipped > 0:
        raise RefusalError(
            f"Kubernetes {now} runs here, and {wanted} skips {skipped} minor version{'s' * (skipped > 1)}:"
            f" kubeadm goes one minor at a time. Write the version {now.major}.{now.minor + 1} in the fleet"
            " file, run upgrade_kubernetes.yml, then the next."
        )


def require_no_restore(root: Path = Path("/")) -> None:
    """Raise during a restore of etcd: kubeadm must not write manifests of stopped components."""
    if any((root / STOPPED).glob("*.yaml")):
        raise RefusalError(
            "A restore of etcd has stopped the control plane here and has not come to its end. Run it to its"
            " end: `gpufleet operate <env> restore --resume`."
        )


def is_member(root: Path = Path("/")) -> bool:
    """Whether the host is part of a cluster, and not left incomplete by an interrupted kubeadm."""
    return (root / KUBELET).is_file() and not (root / STARTED).is_file()


def run(*command: str, timeout_s: float = 600, stdin: str | None = None) -> str:
    """The output of a program; raises with the end of its output on failure."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout_s, input=stdin
        )
    except FileNotFoundError:
        raise RefusalError(
            f"{command[0]} is not installed; the role kubernetes_base installs it. Nothing was changed."
        ) from None
    except subprocess.TimeoutExpired:
        raise RefusalError(f"`{' '.join(command[:3])}` did not end within {timeout_s:.0f} s.") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        # kubeadm warns first, at length.
        output = "\n".join([line for line in lines if not line.lstrip().startswith("[WARNING")][-15:])
        raise RefusalError(f"`{' '.join(command[:4])}` failed:\n{output}")
    return done.stdout


def kubectl(
    *arguments: str, kubeconfig: str = ADMIN, timeout_s: float = 120, stdin: str | None = None
) -> str:
    """The output of kubectl.

    An API server that has just started refuses even the administrator until it has read its roles: then the
    command is repeated for up to a minute, and a reading one too whose response was lost.
    """
    passing = (REFUSED_ADMIN, *(LOST if "get" in arguments else ()))
    deadline = time.monotonic() + STARTING_S
    while True:
        try:
            return run("kubectl", "--kubeconfig", kubeconfig, *arguments, timeout_s=timeout_s, stdin=stdin)
        except RefusalError as error:
            if time.monotonic() > deadline or not any(text in str(error) for text in passing):
                raise
        time.sleep(PAUSE_S)


def read_nodes(kubeconfig: str = ADMIN) -> dict[str, dict[str, Any]]:
    """The nodes of the cluster by name."""
    listed = json.loads(kubectl("get", "nodes", "-o", "json", kubeconfig=kubeconfig))
    return {item["metadata"]["name"]: item for item in listed["items"]}


def is_ready(node: dict[str, Any]) -> bool:
    """Whether the kubelet of a node reports it as ready."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
