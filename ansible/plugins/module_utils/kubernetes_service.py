"""Service of a node in Kubernetes: cordon, drain and uncordon it for an operation."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError

ANNOTATION = "gpufleet.io/operation"


class KubernetesService:
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

    def status(self) -> str:
        """Schedulability and annotation in one line."""
        return f"{'cordoned' if self.taken else 'schedulable'} {self._note}".strip()

    def labels(self) -> dict[str, str]:
        """The node's labels now."""
        code, out, err = self.kubectl("get", "node", self.name, "-o", "json")
        if code:
            raise RefusalError(f"Kubernetes does not say which labels {self.name} has: {err}.")
        found: dict[str, str] = json.loads(out).get("metadata", {}).get("labels", {})
        return found

    def note(self) -> str:
        """The annotation of this operation."""
        return f"cordoned {self._params['operation']} by {self._params['by']}"

    def kubectl(self, *words: str, timeout_s: float = 120, given: str | None = None) -> tuple[int, str, str]:
        """Exit code, output and error of kubectl, which reads `given`; 124 on timeout."""
        command = ["kubectl", "--kubeconfig", self._params["kubeconfig"], *words]
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, text=True, check=False, timeout=timeout_s
            )
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
