#!/usr/bin/python
"""Pods of a Deployment on more than one node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_spread
short_description: Restarts a Kubernetes Deployment whose pods are all on one node
description:
  - The scheduler places pods on the nodes that exist at that moment, and does not move them later. kubeadm
    creates CoreDNS when the cluster has one member, so that its loss stops name resolution for minutes.
  - Restarts nothing if the pods are on several nodes, or if no other node is ready.
  - Runs on a control plane member.
options:
  deployment:
    description: Name of the Deployment; its pods prefer different nodes.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    default: kube-system
  selector:
    description: Label selector of its pods.
    type: str
    required: true
  nodes:
    description: Nodes that can take the pods.
    type: list
    elements: str
    required: true
  timeout_s:
    description: Time limit in seconds for the restart.
    type: int
    default: 300
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Spread CoreDNS over the members
  gpufleet.rack.kubernetes_spread:
    deployment: coredns
    selector: k8s-app=kube-dns
    nodes: [ctl01, ctl02, ctl03]
"""

RETURN = r"""
nodes:
  description: Nodes with pods of the Deployment before.
  type: list
  returned: success
"""

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import (
    ADMIN,
    is_ready,
    kubectl,
    read_nodes,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import finish


def crowded(pods: list[dict[str, Any]], others: set[str]) -> bool:
    """Whether several pods are all on one node, and `others` has a different one."""
    places = {pod["spec"].get("nodeName", "") for pod in pods}
    return len(pods) > 1 and len(places) == 1 and "" not in places and bool(others - places)


def work(params: dict[str, Any], check: bool, kubeconfig: str = ADMIN) -> dict[str, Any]:
    """Spread the pods if need be; the result for Ansible."""
    if len(params["nodes"]) < 2 or (check and not Path(kubeconfig).is_file()):
        return {"changed": False, "nodes": []}
    space = ("-n", params["namespace"])
    found = kubectl("get", "pods", *space, "-l", params["selector"], "-o", "json", kubeconfig=kubeconfig)
    pods = json.loads(found)["items"]
    ready = {
        name
        for name, node in read_nodes(kubeconfig).items()
        if name in params["nodes"] and is_ready(node) and not node.get("spec", {}).get("unschedulable")
    }
    changed = crowded(pods, ready)
    if changed and not check:
        what = f"deployment/{params['deployment']}"
        limit = f"--timeout={params['timeout_s']}s"
        kubectl("rollout", "restart", what, *space, kubeconfig=kubeconfig)
        kubectl(
            "rollout",
            "status",
            what,
            *space,
            limit,
            kubeconfig=kubeconfig,
            timeout_s=params["timeout_s"] + 30,
        )
    return {"changed": changed, "nodes": sorted({pod["spec"].get("nodeName", "") for pod in pods})}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "deployment": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "kube-system"},
            "selector": {"type": "str", "required": True},
            "nodes": {"type": "list", "elements": "str", "required": True},
            "timeout_s": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
