#!/usr/bin/python
"""Takes a node of Kubernetes out of service for an operation, and gives back only what that took."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_drain
short_description: Cordons and drains a node for an operation and returns it
description:
  - C(drained) cordons the node, notes the operation and who runs it in an annotation, and evicts its
    pods. Pods of daemon sets stay; data in emptyDir volumes is lost, as with every eviction. A node whose
    pods do not leave in time is given back, and the task fails with the pods.
  - C(ready) waits until the kubelet says that the node is ready.
  - C(returned) uncordons the node if it is cordoned for this operation, and no other.
  - Runs kubectl on a host of the control plane.
options:
  node:
    description: The node's name in Kubernetes.
    type: str
    required: true
  state:
    description: Which of the three.
    type: str
    choices: [drained, ready, returned]
    required: true
  operation:
    description: The operation's name.
    type: str
    required: true
  by:
    description: Who runs it.
    type: str
    default: somebody
  wait_s:
    description: Seconds that pods may take to leave, or the node to be ready.
    type: int
    default: 0
  kubeconfig:
    description: What kubectl connects with.
    type: path
    default: /etc/kubernetes/admin.conf
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Drain the node
  gpufleet.rack.kubernetes_drain:
    node: dgx001
    state: drained
    operation: upgrade_driver
    wait_s: 3600
"""

RETURN = r"""
ours:
  description: Whether the node is cordoned for this operation, or would be.
  type: bool
  returned: always
"""

import json
import subprocess
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish

ANNOTATION = "gpufleet.io/operation"
POLL_S = 5


class Node:
    """A node, by kubectl."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.name = params["node"]
        self._params = params
        code, out, err = self.kubectl("get", "node", self.name, "-o", "json")
        if code:
            raise RefusalError(f"Kubernetes does not say what {self.name} is: {err}.")
        found = json.loads(out)
        self.cordoned = bool(found.get("spec", {}).get("unschedulable"))
        self.note = found.get("metadata", {}).get("annotations", {}).get(ANNOTATION, "")
        conditions = found.get("status", {}).get("conditions", [])
        self.ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
        self.ours = self.cordoned and self.note.partition(" by ")[0] == params["operation"]

    def kubectl(self, *words: str, timeout_s: float = 120) -> tuple[int, str, str]:
        """Exit code, output and error of kubectl; 124 when it took too long."""
        command = ["kubectl", "--kubeconfig", self._params["kubeconfig"], *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return 124, "", f"kubectl {words[0]} took longer than {timeout_s:.0f} s"
        return done.returncode, done.stdout, " ".join(done.stderr.split())

    def must(self, *words: str) -> None:
        """Runs kubectl, which has to succeed."""
        code, _, err = self.kubectl(*words)
        if code:
            raise RefusalError(f"kubectl {words[0]} of {self.name} failed: {err}.")

    def take(self) -> None:
        """Cordons the node, with the note first: a run killed in between leaves it in service."""
        note = f"{ANNOTATION}={self._params['operation']} by {self._params['by']}"
        self.must("annotate", "node", self.name, note, "--overwrite")
        self.must("cordon", self.name)

    def give_back(self) -> None:
        """Uncordons it; the note goes last."""
        self.must("uncordon", self.name)
        self.must("annotate", "node", self.name, f"{ANNOTATION}-")

    def evict(self, wait_s: int) -> str:
        """Evicts the pods; why not, if they do not leave in time."""
        code, _, err = self.kubectl(
            *("drain", self.name, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={wait_s}s"),
            timeout_s=wait_s + 60,
        )
        return err or f"kubectl drain ended with code {code}" if code else ""


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Carries out what `state` says."""
    node = Node(params)
    if params["state"] == "ready":
        deadline = time.monotonic() + params["wait_s"]
        while not (node.ready or check):
            if time.monotonic() >= deadline:
                raise RefusalError(
                    f"{node.name} is not ready after {params['wait_s']} s. See `kubectl describe node "
                    f"{node.name}`."
                )
            time.sleep(POLL_S)
            node = Node(params)
        return {"changed": False, "ours": node.ours}
    if params["state"] == "returned":
        if node.ours and not check:
            node.give_back()
        return {"changed": node.ours, "ours": node.ours}
    taken = not node.cordoned
    if check:
        return {"changed": taken, "ours": taken or node.ours}
    if taken:
        node.take()
    # kubectl takes a time-out of 0 for none at all.
    why = node.evict(max(params["wait_s"], 1))
    if why:
        ours = Node(params).ours
        if ours:
            node.give_back()
        raise RefusalError(
            f"Pods did not leave {node.name} within {params['wait_s']} s: {why}. The node "
            f"{'was given back and takes pods again' if ours else 'stays cordoned, as it was before'}; "
            "nothing else was changed on it. See PodDisruptionBudgets, or give them longer."
        )
    return {"changed": taken, "ours": taken or node.ours}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["drained", "ready", "returned"], "required": True},
            "operation": {"type": "str", "required": True},
            "by": {"type": "str", "default": "somebody"},
            "wait_s": {"type": "int", "default": 0},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
