#!/usr/bin/python
"""The kubelet's record of which processors belong to which pod."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cpu_manager_state
short_description: Removes the kubelet's CPU manager state before its policy changes
description:
  - A kubelet whose O(policy) or reserved processors differ from those of its state file does not start
    (Kubernetes documentation, "Changing the CPU Manager Policy"). This module drains the node, evicts its
    pods, stops the kubelet and removes the file; the kubelet creates it again when it starts.
  - It changes nothing on a host without the file or with the same settings.
options:
  policy:
    description: CPU manager policy that the kubelet gets.
    type: str
    choices: [none, static]
    required: true
  reserved:
    description: Processors that the kubelet reserves for the system.
    type: int
    required: true
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Remove the CPU manager state of another policy
  gpufleet.rack.cpu_manager_state:
    policy: static
    reserved: 2
"""

RETURN = r"""
drained:
  description: Whether this module drained the node.
  type: bool
  returned: success
"""

import json
import re
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils import node_guard
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import run
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish

STATE = "var/lib/kubelet/cpu_manager_state"
CONFIG = "var/lib/kubelet/config.yaml"
# kubeadm writes the map in this form, its keys in alphabetical order.
_RESERVED = re.compile(r"^kubeReserved:\n(?:  .*\n)*?  cpu: [\"']?(\d+)[\"']?$", re.MULTILINE)


def reserved_processors(config: str) -> int | None:
    """The processors that a kubelet configuration reserves; None if it reserves none."""
    found = _RESERVED.search(config)
    return int(found[1]) if found else None


def difference_of(root: Path, policy: str, reserved: int) -> str:
    """What changes, as a clause; empty if the state file fits the settings."""
    path, config = root / STATE, root / CONFIG
    if not path.is_file():
        return ""
    try:
        now = str(json.loads(path.read_text())["policyName"])
    except (ValueError, KeyError, TypeError):
        return f"the kubelet's processor policy becomes {policy}, and its state file cannot be read"
    if now != policy:
        return f"the kubelet's processor policy changes from {now} to {policy}"
    before = reserved_processors(config.read_text()) if config.is_file() else None
    if policy == "static" and before not in (None, reserved):
        return f"the kubelet's reserved processors change from {before} to {reserved}"
    return ""


def work(params: dict[str, Any], check: bool, root: Path = Path("/")) -> dict[str, Any]:
    """Drain the node and remove the state file if it does not fit; the result for Ansible."""
    change = difference_of(root, params["policy"], params["reserved"])
    if not change:
        return {"changed": False, "drained": False}
    taken = node_guard.take_out_of_service(change, stops="pods", check=check)
    if not check:
        run("systemctl", "stop", "kubelet.service", timeout_s=120)
        try:
            (root / STATE).unlink()
        except OSError as error:
            raise RefusalError(
                f"{root / STATE} cannot be removed: {error}. Remove it and run again."
            ) from error
    return {"changed": True, "drained": taken.drained, "diff": taken.diff}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "policy": {"type": "str", "choices": ["none", "static"], "required": True},
            "reserved": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
