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
from ansible_collections.gpufleet.rack.plugins.module_utils.drained import slurm_refusal
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish


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
