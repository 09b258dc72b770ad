#!/usr/bin/python
"""Arguments of the kernel, and whether the host has to be rebooted for them or for an update."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_arguments
short_description: Kernel arguments by way of GRUB
description:
  - Writes C(/etc/default/grub.d/90-gpufleet.cfg), and has GRUB's configuration made anew where it lacks one.
  - Says why a reboot is needed, by the state of the host and not by what this run changed.
options:
  arguments:
    description: Arguments that the kernel has to be started with.
    type: list
    elements: str
    default: []
  updates:
    description: Whether C(/run/reboot-required) counts as a reason for a reboot.
    type: bool
    default: false
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Let devices through the IOMMU
  gpufleet.rack.kernel_arguments:
    arguments: [iommu=pt]
  register: kernel
"""

RETURN = r"""
reboot_reasons:
  description: Why a reboot is needed; empty if it is not.
  type: list
  returned: always
job_steps:
  description: How many steps of Slurm jobs run on the host.
  type: int
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
    """The text of GRUB's drop-in."""
    return (
        "# Written by gpufleet, which overwrites it.\n"
        f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(arguments)}"\n'
    )


def is_kernel(words: list[str]) -> bool:
    """Whether a line of GRUB's configuration, in words, starts a kernel."""
    started = words[:1] in (["linux"], ["linuxefi"])
    return started and not any(word.rpartition("/")[2].startswith("memtest") for word in words[1:2])


def lacking_in_grub(text: str, arguments: list[str]) -> list[str]:
    """Arguments that an entry of GRUB's configuration for Linux does not have.

    Memory tests are started like kernels (`linux /boot/memtest86+x64.efi`) and take no such arguments.
    """
    lines = [words for line in text.splitlines() if is_kernel(words := line.split())]
    return [wanted for wanted in arguments if not lines or any(wanted not in words for words in lines)]


def lacking_in_kernel(command_line: str, arguments: list[str]) -> list[str]:
    """Arguments that the running kernel was not started with."""
    words = command_line.split()
    return [wanted for wanted in arguments if wanted not in words]


def read(path: Path) -> str:
    """A file's text, empty if there is none."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def job_steps(root: Path) -> int:
    """Processes that run steps of Slurm jobs."""
    return sum(read(path).strip() == "slurmstepd" for path in (root / "proc").glob("[0-9]*/comm"))


def reasons(root: Path, arguments: list[str], updates: bool) -> list[str]:
    """Why the host has to be rebooted."""
    found = []
    lacking = lacking_in_kernel(read(root / "proc/cmdline"), arguments)
    if lacking:
        found.append(f"the kernel runs without {' '.join(lacking)}")
    if updates and (root / "run/reboot-required").exists():
        packages = sorted(set(read(root / "run/reboot-required.pkgs").split()))
        found.append(f"updates wait for it ({', '.join(packages) or 'of unnamed packages'})")
    return found


def differences(root: Path, arguments: list[str]) -> list[str]:
    """What has to be done so that the next boot has the arguments: `write`, `remove`, `grub`."""
    path = root / DROP_IN
    if not arguments:
        return ["remove", "grub"] if path.exists() else []
    todo = [] if read(path) == drop_in(arguments) else ["write"]
    if todo or lacking_in_grub(read(root / GRUB), arguments):
        todo.append("grub")
    return todo


def apply(root: Path, todo: list[str], arguments: list[str]) -> None:
    """Does it."""
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
    """Compares and changes; the result for Ansible."""
    arguments = params["arguments"]
    before = read(root / DROP_IN)
    todo = differences(root, arguments)
    if todo and not check:
        apply(root, todo, arguments)
    result: dict[str, Any] = {
        "changed": bool(todo),
        "reboot_reasons": reasons(root, arguments, params["updates"]),
        "job_steps": job_steps(root),
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
