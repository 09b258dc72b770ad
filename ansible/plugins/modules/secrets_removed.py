#!/usr/bin/python
"""Remove the secrets of a site from a host that leaves it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: secrets_removed
short_description: Removes the secrets of a site from a host
description:
  - Ends the pods of the host, and removes keys, passwords and credentials that gpufleet, kubeadm, the
    kubelet and network plugins have written. Their files are overwritten first.
  - With O(member), also the keys of the cluster, the data of etcd, and backups.
  - Data of users and of jobs are not touched; M(gpufleet.rack.drives_wiped) wipes data drives. What a file
    system or a drive keeps of removed files is not removed, so erase the system drive before disposal.
options:
  member:
    description: Whether to remove what members of the control plane have besides.
    type: bool
    default: false
  folders:
    description: Folders of backups of a member.
    type: list
    elements: str
    default: []
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Remove the secrets of the site
  gpufleet.rack.secrets_removed:
"""

RETURN = r"""
removed:
  description: What was removed, as C(meaning, path).
  type: list
  returned: success
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import run
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

HOST = {
    "munge key": ("etc/munge/munge.key",),
    "password of the accounting database": ("etc/slurm/slurmdbd.conf",),
    "kubelet credentials": (
        "etc/kubernetes/kubelet.conf",
        "etc/kubernetes/bootstrap-kubelet.conf",
        "var/lib/kubelet/pki",
        "var/lib/kubelet/pods",
    ),
    "join token": ("etc/kubernetes/gpufleet/join.yaml",),
    "administrator credentials": (
        "etc/kubernetes/admin.conf",
        "etc/kubernetes/super-admin.conf",
        "root/.kube",
    ),
    "credentials of the network plugin": ("etc/cni/net.d/*kubeconfig*",),
    "keys of the remote target of backups": ("etc/gpufleet/backup",),
    "key of the metrics": ("etc/kubernetes/gpufleet/metrics",),
    "password of remote write": ("etc/prometheus/gpufleet-remote-write",),
    "credentials of Prometheus": ("etc/prometheus/gpufleet/kubernetes",),
    "secrets of Alertmanager": ("etc/prometheus/alertmanager.yml",),
    "password of Grafana": ("etc/grafana/gpufleet/admin-password",),
}
"""Secrets of every host, by meaning."""
MEMBER = {
    "keys of the cluster": (
        "etc/kubernetes/pki",
        "etc/kubernetes/gpufleet/authorities",
        "etc/kubernetes/controller-manager.conf",
        "etc/kubernetes/scheduler.conf",
    ),
    "keys that encrypt secrets": ("etc/kubernetes/gpufleet/encryption.yaml",),
    "static pods": ("etc/kubernetes/manifests/*.yaml",),
    "data of etcd": ("var/lib/etcd/*", "var/lib/etcd/.[!.]*"),
}
"""Secrets of members of the control plane besides."""


def end_pods() -> None:
    """End all pods: containers keep secrets in their environment and in volumes in memory."""
    if shutil.which("crictl") is not None:
        run("crictl", "rmp", "--all", "--force")


def unmount(folder: Path) -> None:
    """Unmount volumes of pods, the inner ones first."""
    mounts = [line.split()[1].replace("\\040", " ") for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((item for item in mounts if item.startswith(f"{folder}/")), reverse=True):
        run("umount", place)


def overwrite(path: Path) -> None:
    """Write zeros over a regular file and unlink it."""
    if path.is_file() and not path.is_symlink():
        with path.open("r+b", buffering=0) as stream:
            left = os.fstat(stream.fileno()).st_size
            while left > 0:
                left -= stream.write(bytes(min(left, 1 << 20)))
            os.fsync(stream.fileno())
    path.unlink()


def remove(path: Path) -> None:
    """Remove a file, or a folder with its contents."""
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            remove(inner)
        path.rmdir()
    else:
        overwrite(path)


def found(params: dict[str, Any], root: Path) -> Iterator[tuple[str, Path]]:
    """Secrets that the host has."""
    named = {**HOST, **(MEMBER if params["member"] else {})}
    if params["member"]:
        named["backups"] = tuple(f"{folder.strip('/')}/*" for folder in params["folders"])
    for meaning, patterns in named.items():
        for pattern in patterns:
            yield from ((meaning, path) for path in sorted(root.glob(pattern)))


def work(params: dict[str, Any], check: bool, root: Path = Path("/")) -> dict[str, Any]:
    """Remove the secrets; the result for Ansible."""
    keys = root / "etc/kubernetes/pki/ca.key"
    if not params["member"] and keys.is_file():
        raise RefusalError(
            f"{keys} exists: the host is a member of a control plane. The option member=true"
            " removes the cluster's keys and the data of etcd from it."
        )
    removed = list(found(params, root))
    if removed and not check:
        if (root / "etc/kubernetes").is_dir():
            end_pods()
        unmount(root / "var/lib/kubelet/pods")
        for _, path in removed:
            remove(path)
        for left in found(params, root):
            raise RefusalError(f"{left[1]} ({left[0]}) is there again: stop the service that writes it.")
    text = [f"{meaning}: {path}" for meaning, path in removed]
    return {"changed": bool(removed), "removed": text, "diff": difference("secrets", "\n".join(text), "")}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "member": {"type": "bool", "default": False},
            "folders": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
