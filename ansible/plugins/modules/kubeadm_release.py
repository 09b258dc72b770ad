#!/usr/bin/python
"""Whether the Kubernetes release of a host can change to the wanted one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_release
short_description: Compares the Kubernetes release of a host with the wanted one
description:
  - Changes nothing. Refuses a release older than that of the host's cluster, one that
    skips a minor version, and a host with an unfinished restore of etcd.
options:
  wanted:
    description: Release, as C(1.35.4).
    type: str
    required: true
  led:
    description: Members whose API servers must run the wanted release already; requires a control plane
      member.
    type: list
    elements: str
    default: []
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Read the installed release
  gpufleet.rack.kubeadm_release:
    wanted: 1.35.4
"""

RETURN = r"""
installed:
  description: Release of the installed kubelet; empty if there is none.
  type: str
  returned: success
member:
  description: Whether the host is part of a cluster.
  type: bool
  returned: success
install:
  description: Whether packages of the wanted release can be installed without an upgrade of the cluster.
  type: bool
  returned: success
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes import (
    ADMIN,
    Release,
    follow,
    is_member,
    kubectl,
    require_no_restore,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish


def installed() -> str:
    """The release of the installed kubelet from dpkg; empty if there is none."""
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", "kubelet"],
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, version = done.stdout.partition(" ")
    return str(Release.of(version)) if done.returncode == 0 and state == "installed" else ""


def compare(wanted_text: str, root: Path = Path("/")) -> dict[str, Any]:
    """The result for Ansible."""
    require_no_restore(root)
    wanted, here, member = Release.of(wanted_text), installed(), is_member(root)
    if here and member:
        follow(Release.of(here), wanted)
    return {
        "changed": False,
        "installed": here,
        "member": member,
        "install": not member or here in ("", str(wanted)),
    }


def require_led(names: list[str], wanted: Release, kubeconfig: str = ADMIN) -> None:
    """Raise unless the API servers of these members run the release: other components must not be newer."""
    words = (
        "get",
        "pods",
        "--namespace",
        "kube-system",
        "--selector",
        "component=kube-apiserver",
        "-o",
        "json",
    )
    pods = json.loads(kubectl(*words, kubeconfig=kubeconfig))["items"] if names else []
    there = {
        pod["spec"]["nodeName"]: Release.of(pod["spec"]["containers"][0]["image"].rpartition(":")[2])
        for pod in pods
    }
    behind = [f"{name} ({there[name]})" for name in names if name in there and there[name] < wanted]
    behind += [f"{name} (away)" for name in names if name not in there]
    if behind:
        raise RefusalError(
            f"The API servers of {', '.join(behind)} do not run Kubernetes {wanted} yet, and no other part of"
            " a cluster may be newer than they are. Upgrade the control plane first, its first member before"
            " the others: leave --limit out, or name them."
        )


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "wanted": {"type": "str", "required": True},
            "led": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )

    def work() -> dict[str, Any]:
        require_led(module.params["led"], Release.of(module.params["wanted"]))
        return compare(module.params["wanted"])

    finish(module, work)


if __name__ == "__main__":
    main()
