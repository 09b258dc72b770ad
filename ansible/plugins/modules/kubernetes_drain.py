#!/usr/bin/python
"""Take a Kubernetes node out of service for an operation, and return only nodes that the operation took."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_drain
short_description: Cordons and drains a node for an operation and returns it
description:
  - C(drained) cordons the node, records the operation and its user in an annotation, and evicts its
    pods. Pods of daemon sets stay; data in emptyDir volumes is lost, as with every eviction. If
    pods do not leave in time, the node is uncordoned, and the task fails with the pods.
  - C(ready) waits until the node is ready.
  - C(returned) uncordons the node only if it is cordoned for this operation.
  - Runs kubectl on a control plane host.
options:
  node:
    description: Name of the node in Kubernetes.
    type: str
    required: true
  state:
    description: Target state.
    type: str
    choices: [drained, ready, returned]
    required: true
  operation:
    description: Name of the operation.
    type: str
    required: true
  by:
    description: User that runs it.
    type: str
    default: somebody
  wait_s:
    description: Seconds for pods to leave, or for the node to be ready.
    type: int
    default: 0
  kubeconfig:
    description: Kubeconfig.
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
  description: Whether the node is cordoned for this operation, also in check mode.
  type: bool
  returned: always
before:
  description: Whether it was schedulable before, and its annotation.
  type: str
  returned: always
"""

import json
import subprocess
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.service import OPTIONS, carry_out

ANNOTATION = "gpufleet.io/operation"


class Node:
    """A node, by kubectl."""

    holds, out = "pods", "cordoned"
    remedy = "See PodDisruptionBudgets, or give them longer."

    def __init__(self, params: dict[str, Any]) -> None:
        self.name = params["node"]
        self._params = params
        code, out, err = self.kubectl("get", "node", self.name, "-o", "json")
        if code:
            raise RefusalError(f"Kubernetes does not say what {self.name} is: {err}.")
        found = json.loads(out)
        self.taken = bool(found.get("spec", {}).get("unschedulable"))
        self._note = found.get("metadata", {}).get("annotations", {}).get(ANNOTATION, "")
        conditions = found.get("status", {}).get("conditions", [])
        self.ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
        self.ours = self.taken and self._note.partition(" by ")[0] == params["operation"]

    def said(self) -> str:
        """Schedulability and annotation in one line."""
        return f"{'cordoned' if self.taken else 'schedulable'} {self._note}".strip()

    def note(self) -> str:
        """The annotation of this operation."""
        return f"cordoned {self._params['operation']} by {self._params['by']}"

    def kubectl(self, *words: str, timeout_s: float = 120) -> tuple[int, str, str]:
        """Exit code, output and error of kubectl; 124 on timeout."""
        command = ["kubectl", "--kubeconfig", self._params["kubeconfig"], *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return 124, "", f"kubectl {words[0]} took longer than {timeout_s:.0f} s"
        return done.returncode, done.stdout, " ".join(done.stderr.split())

    def must(self, *words: str) -> None:
        """Run kubectl, which must succeed."""
        code, _, err = self.kubectl(*words)
        if code:
            raise RefusalError(f"kubectl {words[0]} of {self.name} failed: {err}.")

    def take(self) -> None:
        """Cordon the node after annotating it: a run killed in between leaves it in service."""
        note = f"{ANNOTATION}={self._params['operation']} by {self._params['by']}"
        self.must("annotate", "node", self.name, note, "--overwrite")
        self.must("cordon", self.name)

    def give_back(self) -> None:
        """Uncordon it; remove the annotation last."""
        self.must("uncordon", self.name)
        self.must("annotate", "node", self.name, f"{ANNOTATION}-")

    def empty(self) -> str:
        """Evict the pods; the reason if they do not leave in time."""
        # kubectl treats a timeout of 0 as infinite.
        wait_s = max(self._params["wait_s"], 1)
        code, _, err = self.kubectl(
            *("drain", self.name, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={wait_s}s"),
            timeout_s=wait_s + 60,
        )
        if not code:
            return ""
        why = err or f"kubectl drain ended with code {code}"
        return f"Pods did not leave {self.name} within {self._params['wait_s']} s: {why}."

    def unready(self) -> str:
        """The message that it is not ready."""
        wait_s = self._params["wait_s"]
        return f"{self.name} is not ready after {wait_s} s. See `kubectl describe node {self.name}`."


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec=OPTIONS | {"kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"}},
        supports_check_mode=True,
    )
    params = module.params
    finish(module, lambda: carry_out(lambda: Node(params), params, module.check_mode))


if __name__ == "__main__":
    main()
