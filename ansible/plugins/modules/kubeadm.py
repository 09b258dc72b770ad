#!/usr/bin/python
"""The part of a host in a Kubernetes cluster, created by kubeadm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm
short_description: Initializes or joins a cluster, applies its configuration, upgrades a host
description:
  - Every state is idempotent. An incomplete part that a killed run left is removed
    with C(kubeadm reset) and created again; a host that was complete is never reset.
  - Secrets are in the file O(config), and in no argument.
  - The kubelet's configuration, which kubeadm writes for everyone to read, becomes readable only by root.
  - A cluster uses the certificate authorities in C(/etc/kubernetes/gpufleet/authorities), if a restore of
    etcd has written them.
options:
  state:
    description:
      - V(known) only reads the state. With O(others) it refuses a host with parts of a control plane that
        gpufleet did not begin.
      - V(begun) initializes a cluster with an InitConfiguration.
      - V(joined) joins a cluster with a JoinConfiguration.
      - V(current) writes the control plane's manifests, or a node's kubelet configuration, again if
        O(config) or the cluster's kubelet configuration has changed.
      - V(ready) waits until the API server O(server) is ready.
      - V(applied) upgrades the cluster and this member to O(release), V(upgraded) only this host.
    type: str
    choices: [known, begun, joined, current, ready, applied, upgraded]
    required: true
  config:
    description: Configuration file of kubeadm, on the host.
    type: path
    default: ""
  release:
    description: Target release of V(applied) and V(upgraded), as C(1.35.4).
    type: str
    default: ""
  ignored:
    description: Preflight checks whose errors V(applied) and V(upgraded) ignore.
    type: list
    elements: str
    default: []
  upload:
    description: Whether V(current) also stores the configuration in the cluster, for new members.
    type: bool
    default: false
  others:
    description: Other control plane members, each with C(name) and C(address), to ask whether they run.
    type: list
    elements: dict
    default: []
  port:
    description: Port of the members' API servers.
    type: int
    default: 6443
  server:
    description: URL of this member's own API server, for V(ready).
    type: str
    default: ""
  timeout_s:
    description: Time limit in seconds of kubeadm, and of V(ready).
    type: int
    default: 900
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Initialize the cluster
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
  description: Whether it was a control plane member before.
  type: bool
  returned: success
running:
  description: The names of O(others) whose API server or etcd answers.
  type: list
  returned: success
did:
  description: Changes, also in check mode.
  type: list
  returned: success
"""

import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.control_plane import answering
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import (
    API_SERVER,
    AUTHORITIES,
    KUBELET,
    STARTED,
    Release,
    follow,
    is_member,
    kubectl,
    run,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish

PATCHES = "etc/kubernetes/gpufleet/patches"
DIGEST = "var/lib/gpufleet/kubeadm.digest"
KUBELET_CONFIG = "var/lib/kubelet/config.yaml"


class KubeadmHost:
    """Host access of this module; `root` is another folder in tests."""

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
        """Run kubeadm."""
        return run("kubeadm", *words, timeout_s=self.timeout_s)

    def refuse_other_parts(self) -> None:
        """Raise if the host has parts of a control plane that gpufleet did not begin."""
        if is_member(self.root) or (self.root / STARTED).is_file():
            return
        if self.control_plane or any((self.root / "var/lib/etcd").glob("*")):
            raise RefusalError(
                "The host has parts of a control plane (/etc/kubernetes/manifests or /var/lib/etcd) and none"
                " that gpufleet began. If they are not needed, run `kubeadm reset` on it; then run again."
            )

    def make(self, words: list[str], what: str, check: bool) -> None:
        """Initialize or join, unless the host is part of a cluster already."""
        if is_member(self.root):
            return
        self.refuse_other_parts()
        started = self.root / STARTED
        if started.is_file():
            self.did.append("took away what an interrupted run left")
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
        """Copy certificate authorities of a restore; kubeadm creates only missing ones."""
        kept = self.root / AUTHORITIES
        for path in (item for item in kept.rglob("*") if item.is_file()):
            target = self.root / "etc/kubernetes/pki" / path.relative_to(kept)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)  # with permissions: keys are readable only by root

    def patches(self) -> list[str]:
        """Arguments for the settings of this host, if there are any."""
        folder = self.root / PATCHES
        return ["--patches", str(folder)] if folder.is_dir() else []

    def digest(self) -> str:
        """Digest of the current configuration with the patches of this host."""
        files = {Path(self.config), *(self.root / PATCHES).glob("*")}
        text = b"".join(path.read_bytes() for path in sorted(files))
        return hashlib.sha256(text + self.of_cluster().encode()).hexdigest()

    def of_cluster(self) -> str:
        """The kubelet configuration of the cluster, which a node may read; a member's is in its own file."""
        if self.control_plane:
            return ""
        words = (
            "get",
            "configmap",
            "kubelet-config",
            "--namespace=kube-system",
            "-o",
            "jsonpath={.data.kubelet}",
        )
        return kubectl(*words, kubeconfig=str(self.root / KUBELET))

    def protect(self, check: bool) -> None:
        """Make the kubelet's configuration readable only by root; kubeadm keeps the mode of a file."""
        path = self.root / KUBELET_CONFIG
        if path.is_file() and path.stat().st_mode & 0o077:
            self.did.append(f"made /{KUBELET_CONFIG} readable only by root")
            if not check:
                path.chmod(0o600)

    def kept_digest(self) -> str:
        """Digest of the configuration that the manifests were written with; empty if unknown."""
        path = self.root / DIGEST
        return path.read_text().strip() if path.is_file() else ""

    def keep_digest(self) -> None:
        """Record the configuration."""
        path = self.root / DIGEST
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{self.digest()}\n")

    def follow(self, check: bool) -> None:
        """Write manifests again if the configuration has changed."""
        if self.digest() == self.kept_digest():
            return
        if not self.control_plane:
            self.did.append("wrote the kubelet's configuration")
            if not check:
                self.kubeadm("upgrade", "node", "phase", "kubelet-config", *self.patches())
                self.keep_digest()
            return
        # A different release is left to the upgrade playbook.
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
        """Upgrade this host to the release, unless it has it already."""
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


def ignoring(params: dict[str, Any]) -> list[str]:
    """Flags of kubeadm for preflight checks that are ignored."""
    return [f"--ignore-preflight-errors={','.join(params['ignored'])}"] if params["ignored"] else []


def configured_release(text: str) -> Release:
    """The release of a ClusterConfiguration."""
    for line in text.splitlines():
        if line.startswith("kubernetesVersion:"):
            return Release.of(line.partition(":")[2].strip().strip("\"'"))
    raise RefusalError("The configuration names no kubernetesVersion.")


def wait_for_server(server: str, timeout_s: int) -> None:
    """Wait until an API server is ready, which includes its etcd."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            kubectl("--server", server, "get", "--raw", "/readyz", "--request-timeout=10s")
            return
        except RefusalError as problem:
            if time.monotonic() > deadline:
                raise RefusalError(
                    f"{server} is not ready {timeout_s} s after it should be: {problem}. See"
                    " `journalctl -u kubelet` and `crictl ps -a` on the member; run again after the repair."
                ) from problem
        time.sleep(1)


def work(params: dict[str, Any], check: bool, root: Path = Path("/")) -> dict[str, Any]:
    """Bring the host to the state; the result for Ansible."""
    host = KubeadmHost(params, root)
    before = {
        "member": is_member(root),
        "control_plane": host.control_plane,
        "running": answering(params["others"], params["port"]),
    }
    state = params["state"]
    if state == "known" and params["others"]:
        # A member that joins is removed from etcd first, which must not happen to one that still has data.
        host.refuse_other_parts()
    elif state == "begun":
        if before["running"] and not before["member"]:
            raise RefusalError(
                f"{', '.join(before['running'])} already have a control plane, and initializing another one"
                " here would split the site. Run kubernetes.yml without a limit: the host joins them."
            )
        host.make(["init", "--skip-token-print"], "began the cluster", check)
    elif state == "joined":
        host.make(["join"], "joined the cluster", check)
    elif state == "current":
        # In check mode the file may not exist before there is a cluster.
        if is_member(root) and Path(host.config).is_file():
            host.follow(check)
    elif state == "ready":
        if is_member(root) and not check:
            wait_for_server(params["server"], params["timeout_s"])
    elif state == "applied":
        host.upgrade(["upgrade", "apply", f"v{params['release']}", "--yes", *ignoring(params)], check)
    elif state == "upgraded":
        host.upgrade(["upgrade", "node", *ignoring(params)], check)
    if state != "known":
        host.protect(check)
    return before | {"changed": bool(host.did), "did": host.did}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["known", "begun", "joined", "current", "ready", "applied", "upgraded"],
                "required": True,
            },
            "config": {"type": "path", "default": ""},
            "release": {"type": "str", "default": ""},
            "ignored": {"type": "list", "elements": "str", "default": []},
            "upload": {"type": "bool", "default": False},
            "others": {"type": "list", "elements": "dict", "default": []},
            "port": {"type": "int", "default": 6443},
            "server": {"type": "str", "default": ""},
            "timeout_s": {"type": "int", "default": 900},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
