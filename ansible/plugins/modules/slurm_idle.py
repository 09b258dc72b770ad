#!/usr/bin/python
"""Refuse a node that Slurm has not drained."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_idle
short_description: Refuses a node on which Slurm jobs run or may start
description:
  - Queries slurmctld, and changes nothing. Fails for a node that is not drained and idle. A node that is
    not in Slurm passes.
options:
  node:
    description: Name of the node in Slurm.
    type: str
    required: true
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Refuse a node with jobs
  gpufleet.rack.slurm_idle:
    node: dgx001
"""

RETURN = r"""
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.workloads import MISSING, run


def slurm_refusal(node: str) -> str:
    """Why the Slurm node must not change, empty if it may: it is drained and idle, or Slurm does not have
    it."""
    shown = run("scontrol", "-o", "show", "node", node)
    code, output = shown.code, shown.out + shown.err
    if code == MISSING or "not found" in output:
        return ""
    if code != 0:
        return (
            f"Whether jobs run on {node} is unknown: scontrol says {' '.join(output.split())!r}. "
            "Wait until slurmctld answers."
        )
    fields = dict(word.split("=", 1) for word in output.split() if "=" in word)
    state = fields.get("State", "").upper()
    idle = not {"ALLOCATED", "MIXED", "COMPLETING"} & set(state.replace("*", "").split("+"))
    if "DRAIN" in state and idle and fields.get("CPUAlloc", "0") == "0":
        return ""
    remedy = (
        f"`scontrol update nodename={node} state=drain reason=maintenance`, wait until it is drained, "
        "and run again"
    )
    return f"{node} is {state or 'in an unknown state'} in Slurm: jobs may use its GPUs. {remedy}."


def work(node: str) -> dict[str, Any]:
    """Query the node; raises with the reason."""
    why = slurm_refusal(node)
    if why:
        raise RefusalError(f"{why} Nothing was changed.")
    return {"changed": False}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={"node": {"type": "str", "required": True}}, supports_check_mode=True
    )
    finish(module, lambda: work(module.params["node"]))


if __name__ == "__main__":
    main()
