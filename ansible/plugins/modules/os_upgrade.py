#!/usr/bin/python
"""Upgrade the packages and the kernel of a drained host, with the modules that its GPUs need."""

from __future__ import annotations

DOCUMENTATION = r"""
module: os_upgrade
short_description: Upgrades packages and kernel
description:
  - Runs C(apt-get upgrade --with-new-pkgs), which removes nothing and leaves the packages that roles hold,
    as those of drivers, Slurm, munge and Kubernetes. Packages in C(kernel) are unheld for it and held again.
  - For a new kernel it installs the headers and has DKMS build its modules. It fails if one is missing, so
    that the host does not start without its GPU driver.
  - Does not reboot.
options:
  kernel:
    description: Held packages that are upgraded too, as patterns.
    type: list
    elements: str
    default: []
  lock_timeout_s:
    description: Seconds to wait for another apt or dpkg.
    type: int
    default: 300
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Upgrade packages and kernel
  gpufleet.rack.os_upgrade:
    kernel: ["linux-image-*"]
  register: upgrade
"""

RETURN = r"""
upgraded:
  description: Upgraded packages with old and new version, also in check mode.
  type: list
  returned: success
reboot_reasons:
  description: Why the host must reboot; empty if it need not.
  type: list
  returned: success
"""

import fnmatch
import os
import re
from functools import cmp_to_key
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.apt import Apt, explain, is_older
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.workloads import run

ROOT = Path("/")
OPTIONS = ("-y", "-q", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
# `nvidia/580.159.03, 6.8.0-60-generic, x86_64: installed`
DKMS = re.compile(r"^([^/,\s]+)/[^,]+, ([^,]+), [^:]+: installed", re.M)


def planned(apt: Apt, held: list[str]) -> list[str]:
    """Lines `name old -> new` of what an upgrade would change."""
    asked = [("upgrade", "--with-new-pkgs")]
    asked += [("install", "--only-upgrade", "--allow-change-held-packages", *held)] if held else []
    lines: set[str] = set()
    for words in asked:
        done = apt.run("apt-get", "--simulate", *OPTIONS, *words)
        if done.returncode:
            raise RefusalError(explain(done.stderr or done.stdout))
        for name, old, new in re.findall(r"^Inst (\S+) (?:\[(\S+)\] )?\((\S+) ", done.stdout, re.M):
            lines.add(f"{name} {old or 'absent'} -> {new}")
    return sorted(lines)


def held_packages(apt: Apt, patterns: list[str]) -> list[str]:
    """Held packages that match a pattern."""
    names = apt.run("apt-mark", "showhold").stdout.split()
    return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def upgrade(apt: Apt, held: list[str]) -> None:
    """Upgrade; `held` packages are held again whatever happens."""
    if held:
        apt.must("apt-mark", "unhold", *held)
    try:
        apt.must("apt-get", "upgrade", "--with-new-pkgs", *OPTIONS)
    finally:
        if held:
            apt.must("apt-mark", "hold", *held)


def newest_kernel() -> str:
    """The newest installed kernel, which GRUB starts; empty in a container."""
    names = [path.name.removeprefix("vmlinuz-") for path in (ROOT / "boot").glob("vmlinuz-*")]
    return max(names, key=cmp_to_key(lambda a, b: -1 if is_older(a, b) else 1), default="")


def require_modules(apt: Apt, kernel: str, running: str) -> None:
    """Have DKMS build for a new kernel what the running one has; raises with what is missing."""
    built = DKMS.findall(run("dkms", "status").out)
    wanted = {name for name, release in built if release == running}
    if not wanted:
        return
    apt.must("apt-get", "install", *OPTIONS, f"linux-headers-{kernel}")
    done = run("dkms", "autoinstall", "-k", kernel)
    there = {name for name, release in DKMS.findall(run("dkms", "status").out) if release == kernel}
    if missing := sorted(wanted - there):
        raise RefusalError(
            f"DKMS did not build {', '.join(missing)} for the kernel {kernel}: {done.err[-300:]} The host "
            f"still runs {running} and was not rebooted. The log is below /var/lib/dkms/{missing[0]}/. "
            f"Repair the cause, or remove linux-image-{kernel}, and run again with --resume."
        )


def reasons(kernel: str, running: str) -> list[str]:
    """Why the host must reboot."""
    found = [f"kernel {running} -> {kernel}"] if kernel and kernel != running else []
    if (ROOT / "run/reboot-required").exists():
        found.append("updates wait for it")
    return found


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Upgrade; the result for Ansible."""
    apt = Apt(params["lock_timeout_s"], install_recommends=False)
    if not check:
        apt.update()
    held = held_packages(apt, params["kernel"])
    changes = planned(apt, held)
    running = os.uname().release
    if not check:
        if changes:
            upgrade(apt, held)
        kernel = newest_kernel()
        if kernel and kernel != running:
            require_modules(apt, kernel, running)
    found = reasons(newest_kernel(), running)
    if check and any(line.startswith("linux-image-") for line in changes):
        found.append("a newer kernel")
    return {
        "changed": bool(changes),
        "upgraded": changes,
        "reboot_reasons": found,
        "diff": difference("packages", "", "".join(f"{line}\n" for line in changes)) if changes else {},
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "kernel": {"type": "list", "elements": "str", "default": []},
            "lock_timeout_s": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
