#!/usr/bin/python
"""Takes a node of Slurm out of service for an operation, and gives back only what that operation took."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_drain
short_description: Drains a node for an operation and returns it
description:
  - C(drained) drains the node with a reason that names the operation and who runs it, and waits until no
    job runs on it. A node whose jobs do not end in time is given back as it was, and the task fails with
    the jobs.
  - C(ready) waits until slurmd answers the controller.
  - C(returned) resumes the node if it is drained for this operation. A drain of a person, of another
    operation or of the health check is left as it is.
  - The reason in Slurm is the only memory, so that a run that was killed is finished by the next one,
    whoever runs it.
  - Runs on any host that has Slurm's commands and a controller that answers.
options:
  node:
    description: The node's name in Slurm.
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
    description: Seconds that jobs may take to end, or the node to answer.
    type: int
    default: 0
  poll_s:
    description: Seconds between two looks.
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
  description: Whether the node is drained for this operation, or would be.
  type: bool
  returned: always
before:
  description: State and reason of the node before, as Slurm says them.
  type: str
  returned: always
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_node import SlurmError, SlurmNode, run

# Not the health check's mark "gpufleet: ": what starts with that, the health check takes back.
MARK = "gpufleet operate: "
AWAY = ("DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE", "REBOOT", "POWERED", "*")
SHOWN = 5


def look(params: dict[str, Any]) -> SlurmNode:
    """The node as it is now."""
    node = SlurmNode(f"{MARK}{params['operation']}", params["node"])
    if not node.installed:
        raise RefusalError(f"scontrol is not installed here, and {params['node']} cannot be drained without.")
    if not node.known:
        raise RefusalError(
            f"Slurm does not say what {params['node']} is: {node.said}. See that a controller answers "
            "(scontrol ping) and that slurm.conf has the node."
        )
    return node


def said(node: SlurmNode) -> str:
    """State and reason in one line."""
    return " ".join(f"{node.field('State')} {node.field('Reason')}".split())


def describe(node: SlurmNode, jobs: list[str]) -> str:
    """The jobs with their owners and names."""
    _, lines = run("squeue", "-h", "-j", ",".join(jobs[:SHOWN]), "-o", "%A of %u (%j, %T)")
    shown = "; ".join(sorted(set(lines.splitlines()))) or ", ".join(jobs[:SHOWN])
    return f"{shown}{' and more' if len(jobs) > SHOWN else ''}"


def drained(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Nothing new starts on the node, and nothing runs there."""
    node = look(params)
    before, taken = said(node), not node.drained()
    result = {"changed": taken, "ours": taken or node.drained_by_us(), "before": before}
    result["diff"] = (
        [difference(node.name, f"{before}\n", f"{node.reason} by {params['by']}\n")] if taken else []
    )
    if check:
        return result
    if taken:
        node.drain(f"by {params['by']}")
    deadline = time.monotonic() + params["wait_s"]
    while jobs := node.jobs():
        if time.monotonic() >= deadline:
            text = (
                f"{node.name} still runs {len(jobs)} job{'s' if len(jobs) > 1 else ''} after "
                f"{params['wait_s']} s: {describe(node, jobs)}. "
            )
            if look(params).drained_by_us():
                node.resume()
                text += "The node was given back and takes jobs again; "
            else:
                text += "The node stays drained, as it was before; "
            raise RefusalError(
                f"{text}nothing else was changed on it. Wait for the jobs or end them, or give them longer."
            )
        time.sleep(min(params["poll_s"], max(deadline - time.monotonic(), 0.1)))
    return result


def ready(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """slurmd answers. Right after a boot no command of Slurm does, which is no failure yet."""
    deadline = time.monotonic() + params["wait_s"]
    while True:
        node = SlurmNode(f"{MARK}{params['operation']}", params["node"])
        if check or (node.known and not [word for word in AWAY if word in node.field("State")]):
            return {"changed": False, "ours": node.drained_by_us(), "before": said(node)}
        if time.monotonic() >= deadline:
            state = said(node) if node.known else node.said
            raise RefusalError(
                f"{node.name} does not answer Slurm's controller after {params['wait_s']} s: {state}. "
                "See `systemctl status slurmd` on the node."
            )
        time.sleep(params["poll_s"])


def returned(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """The node takes jobs again, if it is this operation that keeps it from them."""
    node = look(params)
    before, ours = said(node), node.drained_by_us()
    if ours and not check:
        node.resume()
    entry = difference(node.name, f"{before}\n", "in service\n")
    return {"changed": ours, "ours": ours, "before": before, "diff": [entry] if ours else []}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["drained", "ready", "returned"], "required": True},
            "operation": {"type": "str", "required": True},
            "by": {"type": "str", "default": "somebody"},
            "wait_s": {"type": "int", "default": 0},
            "poll_s": {"type": "float", "default": 5},
        },
        supports_check_mode=True,
    )

    def work() -> dict[str, Any]:
        states = {"drained": drained, "ready": ready, "returned": returned}
        try:
            return states[module.params["state"]](module.params, module.check_mode)
        except SlurmError as error:
            raise RefusalError(str(error)) from error

    finish(module, work)


if __name__ == "__main__":
    main()
