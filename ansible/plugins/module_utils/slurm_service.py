"""Service of a node in Slurm: drain and resume it for an operation."""

from __future__ import annotations

import time
from typing import Any

from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_node import SlurmNode, run

# Not the health check's mark "gpufleet: ": the health check resumes nodes with that mark.
MARK = "gpufleet operate: "
AWAY = ("DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE", "REBOOT", "POWERED", "*")
SHOWN = 5


class SlurmService:
    """A Slurm node. While waiting, unanswered Slurm commands are not a failure."""

    holds, out = "jobs", "drained"
    remedy = "Wait for the jobs or end them, or give them longer."

    def __init__(self, params: dict[str, Any]) -> None:
        self._params = params
        self._node = node = SlurmNode(f"{MARK}{params['operation']}", params["node"])
        self.name = params["node"]
        if params["state"] != "ready" and not node.installed:
            raise RefusalError(f"scontrol is not installed here, and {self.name} cannot be drained without.")
        if params["state"] != "ready" and not node.known:
            raise RefusalError(
                f"Slurm does not say what {self.name} is: {node.output}. See that a controller answers "
                "(scontrol ping) and that slurm.conf has the node."
            )
        self.taken, self.ours = node.drained() or node.down_by_others(), node.drained_by_us()
        state = node.field("State")
        if self.ours:
            # slurmctld sets a node DOWN that does not answer for SlurmdTimeout, and up to 23.02 each node
            # that has booted. It stays DOWN when it answers again, since its reason is not "Not responding"
            # (ReturnToService in slurm.conf(5)). State=RESUME ends both.
            state = state.removeprefix("DOWN")
        self.ready = node.known and not [word for word in AWAY if word in state]

    def status(self) -> str:
        """State and reason in one line."""
        return " ".join(f"{self._node.field('State')} {self._node.field('Reason')}".split())

    def note(self) -> str:
        """The reason of this operation."""
        return f"{self._node.reason} by {self._params['by']}"

    def take(self) -> None:
        """Drain it."""
        self._node.drain(f"by {self._params['by']}")

    def give_back(self) -> None:
        """Resume it."""
        self._node.resume()

    def empty(self) -> str:
        """Wait until no job runs on it; the remaining jobs."""
        wait_s = self._params["wait_s"]
        deadline = time.monotonic() + wait_s
        while jobs := self._node.jobs():
            if time.monotonic() >= deadline:
                count = f"{len(jobs)} job{'s' if len(jobs) > 1 else ''}"
                return f"{self.name} still runs {count} after {wait_s} s: {describe(jobs)}."
            time.sleep(min(self._params["poll_s"], max(deadline - time.monotonic(), 0.1)))
        return ""

    def unready(self) -> str:
        """Why it is not ready."""
        state = self.status() if self._node.known else self._node.output
        return (
            f"{self.name} does not answer Slurm's controller after {self._params['wait_s']} s: {state}. "
            "See `systemctl status slurmd` on the node."
        )


def describe(jobs: list[str]) -> str:
    """The jobs with users and names."""
    _, lines = run("squeue", "-h", "-j", ",".join(jobs[:SHOWN]), "-o", "%A of %u (%j, %T)")
    shown = "; ".join(sorted(set(lines.splitlines()))) or ", ".join(jobs[:SHOWN])
    return f"{shown}{' and more' if len(jobs) > SHOWN else ''}"
