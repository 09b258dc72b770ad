#!/usr/bin/python
"""Approval of the kubelets' serving certificates by a member of the control plane."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_certificates
short_description: Approves serving certificates of kubelets that match the inventory
description:
  - Runs C(/usr/lib/gpufleet/kubelet-certificates), which the role kubernetes_control_plane installs. It
    compares user, subject, names and addresses of each request with the hosts of the inventory.
  - Warns of requests that do not match, and of ready nodes without a certificate after O(wait_s).
options:
  wait_s:
    description: Seconds for ready nodes to request and get a certificate.
    type: int
    default: 60
  program:
    description: The program.
    type: path
    default: /usr/lib/gpufleet/kubelet-certificates
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Approve serving certificates of kubelets
  gpufleet.rack.kubelet_certificates:
"""

RETURN = r"""
approved:
  description: Hosts whose request was approved, or would be in check mode.
  type: list
  returned: success
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import ADMIN
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish


def work(params: dict[str, Any], check: bool, admin: str = ADMIN) -> dict[str, Any]:
    """Run the program; the result for Ansible."""
    if check and not (Path(params["program"]).is_file() and Path(admin).is_file()):
        return {"changed": False, "approved": []}
    words = [params["program"], "approve", "--wait", str(params["wait_s"]), *(["--dry-run"] if check else [])]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=params["wait_s"] + 300)
    if done.returncode not in (0, 1):
        raise RefusalError(f"{done.stderr.strip()}. Run again when the API server answers.")
    answer = json.loads(done.stdout)
    warnings = [f"The request {name} is not approved: {why}." for name, why in answer["refused"].items()]
    if not check:
        warnings += [
            f"{name} has no serving certificate of the cluster ({why}): `kubectl logs` and `exec` fail there."
            " See `journalctl -u kubelet` on it, and `kubectl get csr`."
            for name, why in answer["without"].items()
        ]
    return {"changed": bool(answer["approved"]), "approved": answer["approved"], "warnings": warnings}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "wait_s": {"type": "int", "default": 60},
            "program": {"type": "path", "default": "/usr/lib/gpufleet/kubelet-certificates"},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
