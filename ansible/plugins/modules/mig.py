#!/usr/bin/python
"""MIG instances of GPUs, changed on drained nodes only."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mig
short_description: Creates MIG instances
description:
  - Compares the instances of GPUs with the layout, and recreates those that differ. Others are
    not touched.
  - Before any change it drains the node, and fails while work runs on it (see M(gpufleet.rack.node_guard)).
  - On nodes of Kubernetes it pauses the pods of NVIDIA's GPU Operator that have GPUs open while instances
    change. Pods that a killed run left paused are started again.
options:
  layout:
    description: GPU index to profile to number of instances. Other GPUs are whole.
    type: dict
    required: true
  pause:
    description: Units that use GPUs, stopped while instances change and started again.
    type: list
    elements: str
    default: []
  refresh:
    description: Units that list GPUs, restarted after a change.
    type: list
    elements: str
    default: []
  ask:
    description: Whether to drain the node only if instances differ, and change no instance.
    type: bool
    default: false
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Create MIG instances
  gpufleet.rack.mig:
    layout: {"0": {"1g.10gb": 7}}
"""

RETURN = r"""
gpus:
  description: Indexes of changed GPUs, also in check mode.
  type: list
  returned: success
ansible_facts:
  description: C(gpufleet_mig), C({gpu, profile, files}) of every instance.
  type: dict
  returned: success
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils import gpu_operator, mig
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes_service import KubernetesService
from ansible_collections.gpufleet.rack.plugins.module_utils.node_guard import (
    GuardResult,
    kubernetes_node,
    take_out_of_service,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.workloads import active, run


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare and change; the result for Ansible."""
    layout = {str(gpu): dict(profiles) for gpu, profiles in params["layout"].items() if profiles}
    try:
        known = mig.gpus()
    except mig.MigError as error:
        if not check and not params["ask"]:
            raise RefusalError(str(error)) from None
        # The run would install or load the driver before this task.
        known = []
    try:
        if known:
            mig.refuse_unknown(layout, known)
        found = {gpu["index"]: mig.instances(gpu["index"]) for gpu in known if gpu["enabled"]}
    except mig.MigError as error:
        raise RefusalError(str(error)) from None
    answers, known = bool(known), known or [{"index": index} for index in layout]
    wrong = mig.differing(layout, found, [gpu["index"] for gpu in known])
    before = {index: [item["profile"] for item in items] for index, items in sorted(found.items())}
    wanted = text({index: names(profiles) for index, profiles in sorted(layout.items())})
    changes = [difference("MIG", text(before), wanted)] if wrong and not params["ask"] else []
    try:
        # Check before the node is drained and instances and files change.
        for index in wrong if answers else ():
            mig.listed(index, layout.get(index, {}))
    except mig.MigError as error:
        raise RefusalError(str(error)) from None
    change = f"GPUs {', '.join(wrong)} get other MIG instances"
    taken = take_out_of_service(change, check=check) if wrong else GuardResult()
    node = None if params["ask"] else kubernetes_node() if wrong else node_with_paused_pods()
    if node and not wrong:
        left = ", ".join(gpu_operator.paused(node))
        changes.append(difference("pods", f"paused: {left}\n", "running\n"))
    result: dict[str, Any] = {
        "changed": bool(changes or taken.diff),
        "gpus": wrong,
        "diff": [*taken.diff, *changes],
    }
    if check or params["ask"]:
        return result
    try:
        if wrong:
            divide(layout, params, node)
        elif node:
            gpu_operator.resume(node)
        entries = mig.described(mig.gpus(), mig.state())
        if entries != mig.read_state():
            mig.write_state(entries)
    except mig.MigError as error:
        raise RefusalError(str(error)) from None
    return result | {"ansible_facts": {"gpufleet_mig": entries}}


def node_with_paused_pods() -> KubernetesService | None:
    """This host as a node of Kubernetes, if a killed run left pods paused."""
    try:
        node = kubernetes_node()
        return node if node and gpu_operator.paused(node) else None
    except RefusalError:
        # No GPU changes. The next run with an API server that answers starts them.
        return None


def divide(layout: mig.Layout, params: dict[str, Any], node: KubernetesService | None) -> None:
    """Change the GPUs while no unit and no pod of the node uses them."""
    paused = [unit for unit in params["pause"] if active(unit)]
    try:
        if node:
            gpu_operator.pause(node)
        if paused:
            run("systemctl", "stop", *paused)
        try:
            mig.apply(layout)
        finally:
            if paused:
                run("systemctl", "start", *reversed(paused))
        for unit in params["refresh"]:
            if run("systemctl", "cat", unit)[0] == 0:
                run("systemctl", "restart", unit)
    finally:
        # Last: the device plugin lists the new instances when it starts.
        if node:
            gpu_operator.resume(node)


def names(profiles: dict[str, Any]) -> list[str]:
    """Every instance by its profile."""
    return [name for name, count in sorted(profiles.items()) for _ in range(int(count))]


def text(state: dict[str, list[str]]) -> str:
    """One line per GPU, for the diff."""
    return "".join(f"GPU {index}: {' '.join(sorted(found)) or 'nothing'}\n" for index, found in state.items())


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "layout": {"type": "dict", "required": True},
            "pause": {"type": "list", "elements": "str", "default": []},
            "refresh": {"type": "list", "elements": "str", "default": []},
            "ask": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
