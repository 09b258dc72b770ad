#!/usr/bin/python
"""A host's part in a Kubernetes cluster, as kubeadm makes it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm
short_description: Begins a cluster, joins one, follows its configuration, upgrades a host's part
description:
  - Every state is one that a later run finds and leaves alone. What a killed run left half made is taken
    away with C(kubeadm reset) and made anew; a host that once was whole is never reset.
  - Secrets are in the file that O(config) names, and in no argument.
  - A cluster is begun with the authorities in C(/etc/kubernetes/gpufleet/authorities), where a restore of
    etcd has left some.
options:
  state:
    description:
      - V(known) asks only.
      - V(begun) begins a cluster with an InitConfiguration.
      - V(joined) joins one with a JoinConfiguration.
      - V(current) writes the control plane's manifests, or a node's kubelet configuration, anew when
        O(config) is not what they were written with.
      - V(applied) upgrades the cluster and this member to O(release), V(upgraded) this host's part alone.
    type: str
    choices: [known, begun, joined, current, applied, upgraded]
    required: true
  config:
    description: The configuration that kubeadm reads, on the host.
    type: path
    default: ""
  release:
    description: The release that V(applied) and V(upgraded) lead to, as C(1.35.4).
    type: str
    default: ""
  upload:
    description: Whether V(current) also keeps the configuration in the cluster, for those to come.
    type: bool
    default: false
  timeout_s:
    description: Seconds that kubeadm may take.
    type: int
    default: 900
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Begin the cluster
  gpufleet.rack.kubeadm:
    state: begun
    config: /etc/kubernetes/gpufleet/kubeadm.yaml
"""

RETURN = r"""
member:
  description: Whether the host was part of a cluster before.
  type: bool
  returned: success
control_plane:
  description: Whether it was a member of a control plane before.
  type: bool
  returned: success
did:
  description: What was done, or would be.
  type: list
  returned: success
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import (
    API_SERVER,
    AUTHORITIES,
    STARTED,
    Release,
    follow,
    is_member,
    run,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish

PATCHES = "etc/kubernetes/gpufleet/patches"
DIGEST = "var/lib/gpufleet/kubeadm.digest"


class Host:
    """The host as this module sees and changes it; `root` is another folder in tests."""

    def __init__(self, params: dict[str, Any], root: Path = Path("/")) -> None:
        self.root = root
        self.config = params["config"]
        self.release = params["release"]
        self.upload = params["upload"]
        self.timeout_s = params["timeout_s"]
        self.did: list[str] = []

    @property
    def control_plane(self) -> bool:
        """Whether it runs an API server."""
        return (self.root / API_SERVER).is_file()

    def kubeadm(self, *words: str) -> str:
        """Runs kubeadm."""
        return run("kubeadm", *words, timeout_s=self.timeout_s)

    def make(self, words: list[str], what: str, check: bool) -> None:
        """Begins or joins, unless the host is part of a cluster already."""
        if is_member(self.root):
            return
        started = self.root / STARTED
        if started.is_file():
            self.did.append("took away what an interrupted run left")
        elif self.control_plane or any((self.root / "var/lib/etcd").glob("*")):
            raise RefusalError(
                "The host has parts of a control plane (/etc/kubernetes/manifests or /var/lib/etcd) and none"
                " that gpufleet began. If they are not needed, run `kubeadm reset` on it; then run again."
            )
        self.did.append(what)
        if check:
            return
        self.kubeadm("config", "validate", "--config", self.config)
        if started.is_file():
            self.kubeadm("reset", "--force")
        started.parent.mkdir(parents=True, exist_ok=True)
        started.write_text("kubeadm began here and has not ended\n")
        if words[0] == "init":
            self.place_authorities()
        self.kubeadm(*words, "--config", self.config)
        if words[0] == "init":
            self.keep_digest()
        started.unlink()
        shutil.rmtree(self.root / AUTHORITIES, ignore_errors=True)

    def place_authorities(self) -> None:
        """Those that a restore has brought; kubeadm makes only what it does not find."""
        kept = self.root / AUTHORITIES
        for path in (item for item in kept.rglob("*") if item.is_file()):
            target = self.root / "etc/kubernetes/pki" / path.relative_to(kept)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)  # with its permissions: keys are for root alone

    def patches(self) -> list[str]:
        """The words that name this host's own settings, where it has some."""
        folder = self.root / PATCHES
        return ["--patches", str(folder)] if folder.is_dir() else []

    def digest(self) -> str:
        """Of the configuration as it is now."""
        return hashlib.sha256(Path(self.config).read_bytes()).hexdigest()

    def kept_digest(self) -> str:
        """Of the configuration that the manifests were written with; empty if nobody knows."""
        path = self.root / DIGEST
        return path.read_text().strip() if path.is_file() else ""

    def keep_digest(self) -> None:
        """Remembers the configuration."""
        path = self.root / DIGEST
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{self.digest()}\n")

    def follow(self, check: bool) -> None:
        """Writes manifests anew where the configuration is another than they were written with."""
        if self.digest() == self.kept_digest():
            return
        if not self.control_plane:
            self.did.append("wrote the kubelet's configuration")
            if not check:
                self.kubeadm("upgrade", "node", "phase", "kubelet-config", *self.patches())
                self.keep_digest()
            return
        # A release that is another than the one that runs is for the upgrade, in its order.
        wanted = configured_release(Path(self.config).read_text())
        running = Release.of(json.loads(self.kubeadm("version", "-o", "json"))["clientVersion"]["gitVersion"])
        if wanted != running:
            return
        self.did.append("wrote the control plane's manifests")
        if check:
            return
        self.kubeadm("config", "validate", "--config", self.config)
        self.kubeadm("init", "phase", "control-plane", "all", "--config", self.config)
        if self.upload:
            self.kubeadm("init", "phase", "upload-config", "all", "--config", self.config)
        self.kubeadm("upgrade", "node", "phase", "kubelet-config", *self.patches())
        self.keep_digest()

    def upgrade(self, words: list[str], check: bool) -> None:
        """Leads this host's part to the release, unless it has come there already."""
        if not is_member(self.root):
            raise RefusalError(
                "The host is part of no cluster; run the playbook kubernetes.yml first. Nothing was changed."
            )
        wanted = Release.of(self.release)
        marker = self.root / "var/lib/gpufleet/kubeadm.release"
        reached = Release.of(marker.read_text()) if marker.is_file() else None
        if reached == wanted:
            return
        if reached is not None:
            follow(reached, wanted)
        self.did.append(f"led it to {wanted}")
        if check:
            return
        self.kubeadm(*words, *self.patches())
        marker.write_text(f"{wanted}\n")


def configured_release(text: str) -> Release:
    """The release that a ClusterConfiguration names."""
    for line in text.splitlines():
        if line.startswith("kubernetesVersion:"):
            return Release.of(line.partition(":")[2].strip().strip("\"'"))
    raise RefusalError("The configuration names no kubernetesVersion.")


def work(params: dict[str, Any], check: bool, root: Path = Path("/")) -> dict[str, Any]:
    """Brings the host into the state; the result for Ansible."""
    host = Host(params, root)
    before = {"member": is_member(root), "control_plane": host.control_plane}
    state = params["state"]
    if state == "begun":
        host.make(["init", "--skip-token-print"], "began the cluster", check)
    elif state == "joined":
        host.make(["join"], "joined the cluster", check)
    elif state == "current":
        # In a check run before there is a cluster the file may not be there.
        if is_member(root) and Path(host.config).is_file():
            host.follow(check)
    elif state == "applied":
        host.upgrade(["upgrade", "apply", f"v{params['release']}", "--yes"], check)
    elif state == "upgraded":
        host.upgrade(["upgrade", "node"], check)
    return before | {"changed": bool(host.did), "did": host.did}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["known", "begun", "joined", "current", "applied", "upgraded"],
                "required": True,
            },
            "config": {"type": "path", "default": ""},
            "release": {"type": "str", "default": ""},
            "upload": {"type": "bool", "default": False},
            "timeout_s": {"type": "int", "default": 900},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
