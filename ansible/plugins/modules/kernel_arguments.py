#!/usr/bin/python
"""Kernel arguments, and whether the host must be rebooted for them or for an update."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_arguments
short_description: Sets kernel arguments in GRUB
description:
  - Writes C(/etc/default/grub.d/90-gpufleet.cfg), and regenerates GRUB's configuration if needed.
  - Reports the reason for a reboot from the state of the host, not from the changes of this run.
options:
  arguments:
    description: Kernel arguments.
    type: list
    elements: str
    default: []
  updates:
    description: Whether C(/run/reboot-required) is a reason for a reboot.
    type: bool
    default: false
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Set IOMMU pass-through mode
  gpufleet.rack.kernel_arguments:
    arguments: [iommu=pt]
  register: kernel
"""

RETURN = r"""
reboot_reasons:
  description: Reason for a reboot; empty if none is needed.
  type: list
  returned: always
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

DROP_IN = "etc/default/grub.d/90-gpufleet.cfg"
GRUB = "boot/grub/grub.cfg"


def drop_in(arguments: list[str]) -> str:
    """The text of the GRUB drop-in."""
    return (
        "# Written by gpufleet, which overwrites it.\n"
        f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(arguments)}"\n'
    )


def is_kernel(words: list[str]) -> bool:
    """Whether a line of GRUB's configuration, in words, starts a kernel."""
    started = words[:1] in (["linux"], ["linuxefi"])
    return started and not any(word.rpartition("/")[2].startswith("memtest") for word in words[1:2])


def lacking_in_grub(text: str, arguments: list[str]) -> list[str]:
    """Arguments missing in a Linux entry of GRUB's configuration.

    Memory tests start like kernels (`linux /boot/memtest86+x64.efi`) and do not support these arguments.
    """
    lines = [words for line in text.splitlines() if is_kernel(words := line.split())]
    return [wanted for wanted in arguments if not lines or any(wanted not in words for words in lines)]


def lacking_in_kernel(command_line: str, arguments: list[str]) -> list[str]:
    """Arguments missing in the running kernel."""
    words = command_line.split()
    return [wanted for wanted in arguments if wanted not in words]


def read(path: Path) -> str:
    """The text of a file, empty if it does not exist."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def reasons(root: Path, arguments: list[str], updates: bool) -> list[str]:
    """Why the host must be rebooted."""
    found = []
    lacking = lacking_in_kernel(read(root / "proc/cmdline"), arguments)
    if lacking:
        found.append(f"the kernel runs without {' '.join(lacking)}")
    if updates and (root / "run/reboot-required").exists():
        packages = sorted(set(read(root / "run/reboot-required.pkgs").split()))
        found.append(f"updates wait for it ({', '.join(packages) or 'of unnamed packages'})")
    return found


def differences(root: Path, arguments: list[str]) -> list[str]:
    """Steps before the next boot has the arguments: `write`, `remove`, `grub`."""
    path = root / DROP_IN
    if not arguments:
        return ["remove", "grub"] if path.exists() else []
    todo = [] if read(path) == drop_in(arguments) else ["write"]
    if todo or lacking_in_grub(read(root / GRUB), arguments):
        todo.append("grub")
    return todo


def apply(root: Path, todo: list[str], arguments: list[str]) -> None:
    """Run the steps."""
    program = shutil.which("update-grub", path="/usr/sbin:/sbin:/usr/bin")
    if program is None:
        raise RefusalError(
            f"The kernel arguments {' '.join(arguments)} cannot be set: there is no update-grub. Set them "
            "in its own boot loader and reboot it, or leave base_kernel_arguments empty for it."
        )
    path = root / DROP_IN
    if "remove" in todo:
        path.unlink()
    if "write" in todo:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(drop_in(arguments))
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    left = lacking_in_grub(read(root / GRUB), arguments) if arguments else []
    if done.returncode or left:
        raise RefusalError(
            f"update-grub ended with code {done.returncode} and without {' '.join(left) or 'nothing'} "
            f"in /{GRUB}: {done.stderr.strip()[-400:]} Run it on the host to see why, then run again."
        )


def work(params: dict[str, Any], check: bool, root: Path = Path("/")) -> dict[str, Any]:
    """Compare and change; the result for Ansible."""
    arguments = params["arguments"]
    before = read(root / DROP_IN)
    todo = differences(root, arguments)
    if todo and not check:
        apply(root, todo, arguments)
    result: dict[str, Any] = {
        "changed": bool(todo),
        "reboot_reasons": reasons(root, arguments, params["updates"]),
    }
    if todo:
        result["diff"] = difference(f"/{DROP_IN}", before, drop_in(arguments) if arguments else "")
    return result


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "arguments": {"type": "list", "elements": "str", "default": []},
            "updates": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
