#!/usr/bin/python
"""Take a Kubernetes node out of service for an operation, and return only nodes that the operation took."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubernetes_drain
short_description: Cordons and drains a node for an operation and returns it
description:
  - C(drained) cordons the node, records the operation and its user in an annotation, and evicts its
    pods. Pods of daemon sets stay; data in emptyDir volumes is lost, as with every eviction. If
    pods do not leave in time, the node is uncordoned, and the task fails with the pods.
  - C(ready) waits until the node is ready.
  - C(returned) uncordons the node only if it is cordoned for this operation.
  - Runs kubectl on a control plane host.
options:
  node:
    description: Name of the node in Kubernetes.
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
    description: Seconds for pods to leave, or for the node to be ready.
    type: int
    default: 0
  kubeconfig:
    description: Kubeconfig.
    type: path
    default: /etc/kubernetes/admin.conf
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Drain the node
  gpufleet.rack.kubernetes_drain:
    node: dgx001
    state: drained
    operation: upgrade_driver
    wait_s: 3600
"""

RETURN = r"""
ours:
  description: Whether the node is cordoned for this operation, also in check mode.
  type: bool
  returned: always
before:
  description: Whether it was schedulable before, and its annotation.
  type: str
  returned: always
"""


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes_service import KubernetesService
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import finish
from ansible_collections.gpufleet.rack.plugins.module_utils.service import OPTIONS, carry_out


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec=OPTIONS | {"kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"}},
        supports_check_mode=True,
    )
    params = module.params
    finish(module, lambda: carry_out(lambda: KubernetesService(params), params, module.check_mode))


if __name__ == "__main__":
    main()
