#!/usr/bin/python
"""Remove a host from a cluster: etcd member, node object, and tokens with which it may join."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_host_removed
short_description: Removes a host from a Kubernetes cluster
description:
  - Runs on another member of the control plane. Removes the host from etcd if the others keep a quorum,
    deletes its node, and revokes bootstrap tokens that were made for it.
options:
  name:
    description: The host.
    type: str
    required: true
  address:
    description: Address of a member of the control plane; empty for a node.
    type: str
    default: ""
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Remove the node
  gpufleet.rack.kubernetes_host_removed:
    name: dgx004
"""

RETURN = r"""
did:
  description: What was removed.
  type: list
  returned: success
"""

import base64
import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.control_plane import remove_lost
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import (
    ADMIN,
    kubectl,
    purpose_of_token,
    read_nodes,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import finish


def tokens(name: str, kubeconfig: str = ADMIN) -> list[str]:
    """Secrets of the bootstrap tokens that were made for a host."""
    only = "--field-selector=type=bootstrap.kubernetes.io/token"
    output = kubectl("get", "secrets", "-n", "kube-system", only, "-o", "json", kubeconfig=kubeconfig)
    wanted = purpose_of_token(name)
    return [
        item["metadata"]["name"]
        for item in json.loads(output)["items"]
        if base64.b64decode(item.get("data", {}).get("description", "")).decode(errors="replace") == wanted
    ]


def work(params: dict[str, Any], check: bool, kubeconfig: str = ADMIN) -> dict[str, Any]:
    """Remove the host; the result for Ansible."""
    name = params["name"]
    secrets = tokens(name, kubeconfig)
    if check:
        return {"changed": bool(secrets) or name in read_nodes(kubeconfig), "did": []}
    if params["address"]:
        did = remove_lost(name, params["address"])
    else:
        did = [f"removed the node {name}"] if name in read_nodes(kubeconfig) else []
        if did:
            kubectl("delete", "node", name, kubeconfig=kubeconfig)
    for secret in secrets:
        kubectl("delete", "secret", "-n", "kube-system", "--ignore-not-found", secret, kubeconfig=kubeconfig)
        did.append(f"revoked the token {secret.removeprefix('bootstrap-token-')}")
    return {"changed": bool(did), "did": did}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "address": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
