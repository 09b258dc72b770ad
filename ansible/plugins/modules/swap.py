#!/usr/bin/python
"""Swap space, now and at every boot."""

from __future__ import annotations

DOCUMENTATION = r"""
module: swap
short_description: Disables swap
description:
  - Disables active swap, and comments it out in /etc/fstab.
  - Does nothing in a container, which uses the swap of its machine.
options:
  present:
    description: Whether swap is allowed; nothing changes then.
    type: bool
    required: true
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Disable swap
  gpufleet.rack.swap:
    present: false
"""

RETURN = r"""
devices:
  description: Disabled files and devices, also in check mode.
  type: list
  returned: success
"""

import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

MARK = "# gpufleet switched swap off: "


def active(text: str) -> list[str]:
    """Files and devices in /proc/swaps."""
    return [line.split()[0] for line in text.splitlines()[1:] if line.strip()]


def without_swap(fstab: str) -> str:
    """The text of /etc/fstab with swap lines commented out."""
    lines = []
    for line in fstab.splitlines(keepends=True):
        fields = line.split("#", 1)[0].split()
        lines.append(f"{MARK}{line}" if len(fields) >= 3 and fields[2] == "swap" else line)
    return "".join(lines)


def in_container() -> bool:
    """Whether the host is a container."""
    return subprocess.run(["systemd-detect-virt", "--container", "--quiet"], check=False).returncode == 0


def work(present: bool, check: bool, root: Path = Path("/")) -> dict[str, Any]:
    """Compare and change; the result for Ansible."""
    if present:
        return {"changed": False, "devices": []}
    path = root / "etc/fstab"
    before = path.read_text() if path.is_file() else ""
    after = without_swap(before)
    devices = [] if in_container() else active((root / "proc/swaps").read_text())
    if not check:
        if after != before:
            path.write_text(after)
        if devices:
            done = subprocess.run(["swapoff", *devices], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RefusalError(
                    f"swapoff failed: {done.stderr.strip()}. What was swapped out has to fit into memory: end"
                    " what holds it, or reboot the host."
                )
    return {
        "changed": bool(devices) or after != before,
        "devices": devices,
        "diff": difference(str(path), before, after),
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={"present": {"type": "bool", "required": True}}, supports_check_mode=True
    )
    finish(module, lambda: work(module.params["present"], module.check_mode))


if __name__ == "__main__":
    main()
