#!/usr/bin/python
"""Kernel modules that are loaded now and at every boot."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_modules
short_description: Loads kernel modules now and at boot
description:
  - Writes the list that systemd loads at boot, and loads what the kernel has not.
  - Without names the list is removed; nothing is unloaded.
options:
  names:
    description: Modules, in the order in which they are loaded.
    type: list
    elements: str
    required: true
  path:
    description: The list below /etc/modules-load.d.
    type: path
    required: true
  unloaded:
    description: Whether the run will have unloaded them before this, for check mode.
    type: bool
    default: false
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Load GDRCopy's module
  gpufleet.rack.kernel_modules:
    names: [gdrdrv]
    path: /etc/modules-load.d/gdrcopy.conf
"""

RETURN = r"""
loaded:
  description: Modules that were loaded by this, or would be.
  type: list
  returned: success
"""

import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

HEAD = "# Written by gpufleet.\n"


def missing(names: list[str], root: Path = Path("/")) -> list[str]:
    """Modules that the kernel has not loaded."""
    return [name for name in names if not (root / "sys/module" / name.replace("-", "_")).is_dir()]


def insert(name: str) -> None:
    """Loads a module; raises with what the kernel said."""
    done = subprocess.run(["modprobe", name], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    said = done.stderr.strip()
    if "not found" in said:
        hint = (
            "Nothing built it for this kernel: see `dkms status` and whether the kernel's headers are there."
        )
    elif "rejected" in said:
        hint = (
            "Secure Boot refuses unsigned modules: enrol DKMS' key "
            "(mokutil --import /var/lib/dkms/mok.pub) or turn Secure Boot off."
        )
    else:
        hint = "See the end of `dmesg` on the host."
    raise RefusalError(f"The kernel did not load {name}: {said}. {hint}")


def write(path: Path, text: str) -> None:
    """Writes the list whole or not at all; removes an empty one."""
    if not text:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.chmod(0o644)
    new.replace(path)


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compares and changes; the result for Ansible."""
    names, path = params["names"], Path(params["path"])
    text = HEAD + "".join(f"{name}\n" for name in names) if names else ""
    try:
        before = path.read_text()
    except OSError:
        before = ""
    load = names if check and params["unloaded"] else missing(names)
    if not check:
        if text != before:
            write(path, text)
        for name in load:
            insert(name)
    return {
        "changed": bool(load) or text != before,
        "loaded": load,
        "diff": difference(str(path), before, text + "".join(f"loaded now: {name}\n" for name in load)),
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "path": {"type": "path", "required": True},
            "unloaded": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
