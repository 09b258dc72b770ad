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
  - C(ready) waits until slurmd answers the controller. A node that is drained for this operation may be DOWN,
    since Slurm keeps that state after a reboot.
  - C(returned) resumes the node only if it is drained for this operation, also if Slurm has set it DOWN
    meanwhile. Drains by administrators, other operations or the health check are kept, and so is a node that
    an administrator has set DOWN.
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
    default: unknown
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

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.service import OPTIONS, carry_out
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_node import SlurmError
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_service import SlurmService


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec=OPTIONS | {"poll_s": {"type": "float", "default": 5}}, supports_check_mode=True
    )
    params = module.params

    def work() -> dict[str, Any]:
        try:
            return carry_out(lambda: SlurmService(params), params, module.check_mode, params["poll_s"])
        except SlurmError as error:
            raise RefusalError(str(error)) from error

    finish(module, work)


if __name__ == "__main__":
    main()
