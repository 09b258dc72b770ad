#!/usr/bin/python
"""A backup from the remote target, decrypted on the host that restores it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: backup_fetch
short_description: Fetches a backup from the site's remote target
description:
  - Runs C(backup-target) of the role backup_target, which fetches a copy, decrypts it, and creates the folder
    when it is complete.
  - The identity is in no argument and in no file.
options:
  name:
    description: Name of the copy, without its suffix.
    type: str
    required: true
  folder:
    description: Folder of the backup; it is replaced.
    type: path
    required: true
  identity:
    description: The age identity, C(AGE-SECRET-KEY-1...).
    type: str
    required: true
  program:
    description: The program, with its options.
    type: list
    elements: str
    default: [/usr/lib/gpufleet/backup-target]
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Fetch the backup
  gpufleet.rack.backup_fetch:
    name: etcd-dc2-ctl01-20260301T020000Z
    folder: /var/backups/gpufleet/etcd/restore
    identity: "{{ backup_target_identity }}"
  no_log: true
"""

RETURN = r"""
problem:
  description: Why nothing was fetched, with the newest copies; empty if it was.
  type: str
  returned: always
"""

import json
import subprocess
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import finish

_LISTED = 6


def call(program: list[str], *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program."""
    return subprocess.run([*program, *words], input=stdin, capture_output=True, text=True, check=False)


def newest(program: list[str], prefix: str) -> str:
    """The newest copies of the same kind, for a message."""
    done = call(program, "list", prefix)
    names = [item["name"] for item in json.loads(done.stdout)][-_LISTED:] if done.returncode == 0 else []
    return f" The newest: {', '.join(reversed(names))}." if names else ""


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Fetch the copy; the result for Ansible.

    A refusal is a result, not a failure: the task has `no_log`, which would hide it.
    """
    if check:
        return {"changed": True, "problem": ""}
    done = call(params["program"], "fetch", params["name"], params["folder"], stdin=params["identity"])
    if done.returncode == 0:
        return {"changed": True, "problem": ""}
    error = done.stderr.strip().replace(params["identity"], "***")
    listed = newest(params["program"], params["name"].partition("-")[0])
    return {"changed": False, "problem": f"{error}.{listed}"}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "folder": {"type": "path", "required": True},
            "identity": {"type": "str", "required": True, "no_log": True},
            "program": {
                "type": "list",
                "elements": "str",
                "default": ["/usr/lib/gpufleet/backup-target"],
            },
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
