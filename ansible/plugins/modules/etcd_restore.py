#!/usr/bin/python
"""A step of the program that restores an etcd snapshot on a control plane member."""

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_restore
short_description: Restores a snapshot of etcd on a member of a Kubernetes control plane, step by step
description:
  - Runs C(etcd-restore) of the role kubernetes_control_plane, which explains the steps. All members finish
    a step before the next one starts.
  - Every step continues an interrupted run. An invalid restore is refused before anything
    stops.
  - In check mode V(check) judges the snapshot, and other steps change nothing.
options:
  step:
    description: Step.
    type: str
    choices: [check, order, prepare, stop, exchange, start, wait, serve, end, clean, authorities]
    required: true
  folder:
    description: Folder of the snapshot on the host, for V(check), V(prepare) and V(authorities).
    type: path
  answers:
    description: Results of V(check) of all members, for V(order).
    type: list
    elements: dict
    default: []
  order:
    description: Result of V(order), for V(prepare).
    type: dict
    default: {}
  discard_newer:
    description: Whether to discard data that is newer than the snapshot.
    type: bool
    default: false
  resumed:
    description: Whether to skip a completed restore of this snapshot.
    type: bool
    default: false
  kubernetes:
    description: Folder of kubeadm's files.
    type: path
    default: /etc/kubernetes
  program:
    description: Path of the program.
    type: path
    default: /usr/lib/gpufleet/etcd-restore
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Check the snapshot
  gpufleet.rack.etcd_restore:
    step: check
    folder: /var/backups/gpufleet/etcd/etcd-20260301T020000Z
"""

RETURN = r"""
answer:
  description: Result of the step on this member; empty if it did not run.
  type: dict
  returned: success
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish

STEPS = [
    "check",
    "order",
    "prepare",
    "stop",
    "exchange",
    "start",
    "wait",
    "serve",
    "end",
    "clean",
    "authorities",
]


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Run the step; the result for Ansible."""
    step = params["step"]
    if check and (step != "check" or not Path(params["program"]).is_file()):
        return {"changed": True, "answer": {}}
    words = [params["program"], step, *([params["folder"]] if params["folder"] else [])]
    words += ["--kubernetes", params["kubernetes"]]
    words += ["--discard-newer"] * params["discard_newer"] + ["--resumed"] * params["resumed"]
    sent = {"order": params["answers"], "prepare": params["order"]}.get(step, "")
    done = subprocess.run(
        words, input=json.dumps(sent), capture_output=True, text=True, check=False, timeout=7200
    )
    if done.returncode != 0:
        raise RefusalError((done.stderr or done.stdout).strip()[-2000:])
    answer = json.loads(done.stdout)
    return {"changed": bool(answer.pop("changed", False)), "answer": answer}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": STEPS, "required": True},
            "folder": {"type": "path"},
            "answers": {"type": "list", "elements": "dict", "default": []},
            "order": {"type": "dict", "default": {}},
            "discard_newer": {"type": "bool", "default": False},
            "resumed": {"type": "bool", "default": False},
            "kubernetes": {"type": "path", "default": "/etc/kubernetes"},
            "program": {"type": "path", "default": "/usr/lib/gpufleet/etcd-restore"},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
