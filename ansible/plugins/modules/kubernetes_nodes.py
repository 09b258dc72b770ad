#!/usr/bin/python
"""Labels, taints and scheduling of cluster nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_nodes
short_description: Labels, taints, drains and uncordons Kubernetes nodes
description:
  - Compares with the cluster first, and changes only what differs.
  - Removes labels and taints that it set before and that are no longer listed; those of others stay.
  - Skips and reports nodes that have not joined.
  - Runs on a control plane member.
options:
  labels:
    description: Labels of each node by its name.
    type: dict
    default: {}
  taints:
    description: C(key), C(value) and C(effect) of the taints of each node by its name.
    type: dict
    default: {}
  drain:
    description: Nodes to cordon and drain, within the disruption budgets of pods.
    type: list
    elements: str
    default: []
  ready:
    description: Nodes that must be ready, and that are uncordoned if this module cordoned them.
    type: list
    elements: str
    default: []
  timeout_s:
    description: Time limit in seconds for draining or waiting for one node.
    type: int
    default: 1200
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Label the nodes
  gpufleet.rack.kubernetes_nodes:
    labels: {dgx001: {gpufleet.io/rack: r1}}
"""

RETURN = r"""
missing:
  description: Nodes that have not joined.
  type: list
  returned: success
nodes:
  description: Changes of each node, also in check mode.
  type: dict
  returned: success
"""

import json
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import (
    ADMIN,
    is_ready,
    kubectl,
    read_nodes,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

OWNED = "gpufleet.io/owned"
"""Annotation with managed labels and taints: those that are no longer listed are removed."""
DRAINED = "gpufleet.io/drained"
"""Annotation of nodes that this module cordoned. Other cordons are kept."""

Taint = tuple[str, str, str]


def owned(node: dict[str, Any]) -> tuple[set[str], set[tuple[str, str]]]:
    """Managed label keys, and keys and effects of managed taints."""
    text = node["metadata"].get("annotations", {}).get(OWNED, "")
    kept = json.loads(text) if text else {}
    return set(kept.get("labels", [])), {tuple(item) for item in kept.get("taints", [])}


def patch_for(node: dict[str, Any], labels: dict[str, str], taints: list[dict[str, str]]) -> dict[str, Any]:
    """Merge patch for labels and taints of a node; empty without differences."""
    own_labels, own_taints = owned(node)
    there = node["metadata"].get("labels", {})
    changed: dict[str, str | None] = {key: value for key, value in labels.items() if there.get(key) != value}
    changed |= {key: None for key in own_labels if key not in labels and key in there}
    wanted = {(item["key"], item["effect"]): item.get("value", "") for item in taints}
    now = node.get("spec", {}).get("taints", [])
    others = [
        item
        for item in now
        if (item["key"], item["effect"]) not in wanted and (item["key"], item["effect"]) not in own_taints
    ]
    ours = [
        {"key": key, "effect": effect} | ({"value": value} if value else {})
        for (key, effect), value in sorted(wanted.items())
    ]
    patch: dict[str, Any] = {}
    if changed:
        patch.setdefault("metadata", {})["labels"] = changed
    if _plain(now) != _plain([*others, *ours]):
        patch["spec"] = {"taints": [*others, *ours]}
    note = json.dumps({"labels": sorted(labels), "taints": sorted(map(list, wanted))}, separators=(",", ":"))
    known = node["metadata"].get("annotations", {}).get(OWNED)
    if known != note and (labels or wanted or known):
        patch.setdefault("metadata", {})["annotations"] = {OWNED: note}
    return patch


def _plain(taints: list[dict[str, Any]]) -> set[Taint]:
    return {(item["key"], item.get("value", ""), item["effect"]) for item in taints}


class ClusterNodes:
    """Cluster access of this module."""

    def __init__(self, timeout_s: int, kubeconfig: str = ADMIN) -> None:
        self.timeout_s = timeout_s
        self.kubeconfig = kubeconfig
        self.done: dict[str, list[str]] = {}

    def kubectl(self, *words: str, timeout_s: float = 120) -> str:
        """Run kubectl as an administrator."""
        return kubectl(*words, kubeconfig=self.kubeconfig, timeout_s=timeout_s)

    def read(self) -> dict[str, dict[str, Any]]:
        """The nodes by name."""
        return read_nodes(self.kubeconfig)

    def note(self, node: str, what: str) -> None:
        """Record a change."""
        self.done.setdefault(node, []).append(what)

    def mark(self, name: str, node: dict[str, Any], params: dict[str, Any], check: bool) -> None:
        """Set labels and taints of one node."""
        patch = patch_for(node, params["labels"].get(name, {}), params["taints"].get(name, []))
        if not patch:
            return
        self.note(name, f"labels and taints: {json.dumps(patch, sort_keys=True)}")
        if not check:
            self.kubectl("patch", "node", name, "--type", "merge", "-p", json.dumps(patch))

    def drain(self, name: str, node: dict[str, Any], check: bool) -> None:
        """Drain a node. One that was cordoned before is not marked as ours."""
        marked = DRAINED in node["metadata"].get("annotations", {})
        cordoned = bool(node.get("spec", {}).get("unschedulable"))
        if not (marked and cordoned):
            self.note(name, "drained")
        if check:
            return
        if not cordoned:
            self.kubectl("annotate", "node", name, "--overwrite", f"{DRAINED}=yes")
        # Also if it was drained before: pods may have started since an interrupted run.
        self.kubectl(
            "drain",
            name,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            f"--timeout={self.timeout_s}s",
            timeout_s=self.timeout_s + 60,
        )

    def return_to(self, name: str, check: bool) -> None:
        """Wait until a node is ready, and uncordon it."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            reason = ""
            try:
                node = self.read().get(name)
            except RefusalError as error:
                # A member's API server restarts with its kubelet.
                node, reason = None, f" ({error})"
            if node is not None and is_ready(node):
                break
            if check:
                return
            if time.monotonic() > deadline:
                raise RefusalError(
                    f"{name} is not ready {self.timeout_s} s after it should be{reason}. It stays drained: "
                    "see `journalctl -u kubelet` on it, and run again after the repair."
                )
            time.sleep(5)
        if DRAINED not in node["metadata"].get("annotations", {}):
            return
        self.note(name, "returned")
        if not check:
            self.kubectl("uncordon", name)
            self.kubectl("annotate", "node", name, f"{DRAINED}-")


def work(params: dict[str, Any], check: bool, kubeconfig: str = ADMIN) -> dict[str, Any]:
    """Bring the nodes to the state; the result for Ansible."""
    named = list(dict.fromkeys([*params["labels"], *params["taints"], *params["drain"], *params["ready"]]))
    if check and not Path(kubeconfig).is_file():
        return {"changed": bool(named), "missing": [], "nodes": {name: ["would be set up"] for name in named}}
    cluster = ClusterNodes(params["timeout_s"], kubeconfig)
    there = cluster.read()
    missing = [name for name in named if name not in there]
    for name in named:
        if name in there and (name in params["labels"] or name in params["taints"]):
            cluster.mark(name, there[name], params, check)
    for name in params["drain"]:
        if name in there:
            cluster.drain(name, there[name], check)
    for name in params["ready"]:
        cluster.return_to(name, check)
    text = "".join(f"{name}: {what}\n" for name, done in cluster.done.items() for what in done)
    return {
        "changed": bool(cluster.done),
        "missing": missing,
        "nodes": cluster.done,
        "diff": difference("nodes", "", text),
    }


def main() -> None:
    """Entry point."""
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "labels": {"type": "dict", "default": {}},
            "taints": {"type": "dict", "default": {}},
            "drain": names,
            "ready": names,
            "timeout_s": {"type": "int", "default": 1200},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
