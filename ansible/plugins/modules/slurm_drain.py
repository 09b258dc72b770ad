#!/usr/bin/python
"""Take a Slurm node out of service for an operation, and return only nodes that the operation took."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_drain
short_description: Drains a node for an operation and returns it
description:
  - C(drained) drains the node with a reason that names the operation and its user, and waits until no
    job runs on it. If jobs do not end in time, a node that was in service is resumed, and the task fails with
    the jobs.
  - C(ready) waits until slurmd answers the controller.
  - C(returned) resumes the node only if it is drained for this operation. Drains by administrators, other
    operations or the health check are kept.
  - The reason in Slurm is the only state, so the next run completes a killed one,
    by any user.
  - Runs on any host with Slurm commands and a responding controller.
options:
  node:
    description: Name of the node in Slurm.
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
    description: Seconds for jobs to end, or for the node to answer.
    type: int
    default: 0
  poll_s:
    description: Seconds between polls.
    type: float
    default: 5
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Drain the node
  gpufleet.rack.slurm_drain:
    node: dgx001
    state: drained
    operation: upgrade_driver
    by: ada
    wait_s: 3600
"""

RETURN = r"""
ours:
  description: Whether the node is drained for this operation, also in check mode.
  type: bool
  returned: always
before:
  description: State and reason of the node before.
  type: str
  returned: always
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.service import OPTIONS, carry_out
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_node import SlurmError, SlurmNode, run

# Not the health check's mark "gpufleet: ": the health check resumes nodes with that mark.
MARK = "gpufleet operate: "
AWAY = ("DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE", "REBOOT", "POWERED", "*")
SHOWN = 5


class Node:
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
                f"Slurm does not say what {self.name} is: {node.said}. See that a controller answers "
                "(scontrol ping) and that slurm.conf has the node."
            )
        self.taken, self.ours = node.drained(), node.drained_by_us()
        self.ready = node.known and not [word for word in AWAY if word in node.field("State")]

    def said(self) -> str:
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
        state = self.said() if self._node.known else self._node.said
        return (
            f"{self.name} does not answer Slurm's controller after {self._params['wait_s']} s: {state}. "
            "See `systemctl status slurmd` on the node."
        )


def describe(jobs: list[str]) -> str:
    """The jobs with users and names."""
    _, lines = run("squeue", "-h", "-j", ",".join(jobs[:SHOWN]), "-o", "%A of %u (%j, %T)")
    shown = "; ".join(sorted(set(lines.splitlines()))) or ", ".join(jobs[:SHOWN])
    return f"{shown}{' and more' if len(jobs) > SHOWN else ''}"


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec=OPTIONS | {"poll_s": {"type": "float", "default": 5}}, supports_check_mode=True
    )
    params = module.params

    def work() -> dict[str, Any]:
        try:
            return carry_out(lambda: Node(params), params, module.check_mode, params["poll_s"])
        except SlurmError as error:
            raise RefusalError(str(error)) from error

    finish(module, work)


if __name__ == "__main__":
    main()
