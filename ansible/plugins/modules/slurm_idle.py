#!/usr/bin/python
"""Whether Slurm has drained a node; refused otherwise."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_idle
short_description: Refuses a node on which jobs of Slurm run or may begin
description:
  - Asks slurmctld, and changes nothing. Fails for a node that is not drained and idle. A node that Slurm
    does not have is free.
options:
  node:
    description: The node's name in Slurm.
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
    """Asks; raises with what stands against it."""
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
