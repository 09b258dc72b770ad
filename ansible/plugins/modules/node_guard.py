#!/usr/bin/python
"""Drain this node before a change that stops work, and return it after the change."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_guard
short_description: Drains a node before a change that stops work
description:
  - C(drained) drains the node in Slurm and cordons it in Kubernetes, where it is part of them, and fails
    while work runs on it that the change would stop. Jobs, pods with devices, Docker containers, processes
    that use GPUs or RDMA adapters, and for reboots logins are work. The node stays drained then, and a later
    run continues. Other pods are evicted before a reboot and before a change that stops pods.
  - C(found) reports whether a run drained the node and did not return it, and changes nothing.
  - C(returned) resumes the node where C(drained) or a module with a guard drained it. Drains by others
    are kept.
options:
  state:
    description: Target state.
    type: str
    choices: [drained, found, returned]
    required: true
  change:
    description: What changes, as a clause.
    type: str
    default: the host changes
  stops:
    description: What the change stops.
    type: str
    choices: [gpus, containers, pods, host]
    default: gpus
  wait_s:
    description: Seconds to wait for running work.
    type: int
    default: 0
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Drain the node before the reboot
  gpufleet.rack.node_guard:
    state: drained
    change: the host reboots for new kernel arguments
    stops: host
"""

RETURN = r"""
drained:
  description: Whether the node is drained by this module or by a module with a guard.
  type: bool
  returned: always
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils import node_guard
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import finish


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Drain, look or return; the result for Ansible."""
    if params["state"] == "drained":
        taken = node_guard.take_out_of_service(
            params["change"], stops=params["stops"], check=check, wait_s=params["wait_s"]
        )
        return {"changed": bool(taken.diff), "drained": taken.drained, "diff": taken.diff}
    if params["state"] == "found":
        return {"changed": False, "drained": bool(node_guard.give_back(check=True))}
    diff = node_guard.give_back(check=check)
    return {"changed": bool(diff), "drained": check and bool(diff), "diff": diff}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["drained", "found", "returned"], "required": True},
            "change": {"type": "str", "default": "the host changes"},
            "stops": {"type": "str", "choices": ["gpus", "containers", "pods", "host"], "default": "gpus"},
            "wait_s": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
