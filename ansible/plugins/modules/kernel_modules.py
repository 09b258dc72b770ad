#!/usr/bin/python
"""Load kernel modules now and at every boot."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_modules
short_description: Loads kernel modules now and at boot
description:
  - Writes the list that systemd loads at boot, and loads missing modules.
  - Without names it removes the list; it never unloads modules.
options:
  names:
    description: Modules, in load order.
    type: list
    elements: str
    required: true
  path:
    description: Name of the list in /etc/modules-load.d.
    type: path
    required: true
  unloaded:
    description: Whether the run unloads the modules before this task, for check mode.
    type: bool
    default: false
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Load the GDRCopy module
  gpufleet.rack.kernel_modules:
    names: [gdrdrv]
    path: /etc/modules-load.d/gdrcopy.conf
"""

RETURN = r"""
loaded:
  description: Loaded modules, also in check mode.
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
    """Modules that are not loaded."""
    return [name for name in names if not (root / "sys/module" / name.replace("-", "_")).is_dir()]


def insert(name: str) -> None:
    """Load a module; raises with the output of modprobe."""
    done = subprocess.run(["modprobe", name], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    error = done.stderr.strip()
    if "not found" in error:
        hint = (
            "Nothing built it for this kernel: see `dkms status` and whether the kernel's headers are there."
        )
    elif "rejected" in error:
        hint = (
            "Secure Boot refuses unsigned modules: enrol DKMS' key "
            "(mokutil --import /var/lib/dkms/mok.pub) or turn Secure Boot off."
        )
    else:
        hint = "See the end of `dmesg` on the host."
    raise RefusalError(f"The kernel did not load {name}: {error}. {hint}")


def write(path: Path, text: str) -> None:
    """Write the list atomically; remove an empty one."""
    if not text:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.chmod(0o644)
    new.replace(path)


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare and change; the result for Ansible."""
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
