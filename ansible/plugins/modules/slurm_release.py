#!/usr/bin/python
"""Whether a host's Slurm can be upgraded to a version, and the required packages."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_release
short_description: Checks an upgrade of Slurm before any change
description:
  - Reads the Slurm version of a host, and whether its repositories have the requested one.
  - Refuses downgrades, and upgrades over more releases than Slurm supports.
  - Changes only apt's lists and, with C(download), its package cache.
options:
  version:
    description: Target version, with all three numbers.
    type: str
    required: true
  upgrades:
    description: For each release the releases it can upgrade from, as in gpufleet's catalog.
    type: dict
    required: true
  download:
    description: Whether to download the packages, so that daemons are down for a shorter time.
    type: bool
    default: false
  lock_timeout_s:
    description: Seconds to wait for another apt or dpkg.
    type: int
    default: 300
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Check the upgrade of Slurm
  gpufleet.rack.slurm_release:
    version: 25.05.8
    upgrades: {"25.05": ["24.11", "24.05", "23.11"]}
  register: upgrade
"""

RETURN = r"""
installed:
  description: Installed version, the oldest of all packages.
  type: str
  returned: success
needed:
  description: Whether a package has another version, or dpkg was interrupted.
  type: bool
  returned: success
packages:
  description: Slurm packages with their target versions, in apt syntax.
  type: list
  returned: success
plugins:
  description: >-
    SPANK plugins, which must be rebuilt if the release changes. Jobs fail if such a
    plugin is
    required and does not load.
  type: list
  returned: success
"""

import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.apt import Apt, NoStarts, explain, stale
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_versions import (
    Package,
    Version,
    installed,
    judge,
    upstream,
    version_here,
    wanted,
)

PLUGINS = Path("/etc/slurm/plugstack.conf.d")


def choose(here: list[Package], new: Version, have: dict[str, list[str]]) -> list[str]:
    """`name=version` for each package; a package that another version replaces is used as it is.

    A library with the release in its name is replaced by its successor, which apt installs.
    """
    chosen, lacking = [], []
    for package in here:
        if upstream(package.version) == new:
            chosen.append(f"{package.name}={package.version}")
            continue
        suits = [version for version in have.get(package.name, []) if upstream(version) == new]
        if suits:
            chosen.append(f"{package.name}={suits[0]}")
        elif not package.name.startswith("libslurm"):
            others = ", ".join(have.get(package.name, [])[:4]) or "none"
            lacking.append(f"{package.name} (there is {others})")
    if lacking:
        raise RefusalError(
            f"No repository of the host has Slurm {new}: {'; '.join(lacking)}. Add it to the site's "
            f"mirror, or choose "
            "another version with -o version=; nothing was changed."
        )
    return chosen


def spank_plugins() -> list[str]:
    """Paths of plugins that jobs load."""
    found = []
    for path in sorted(PLUGINS.glob("*.conf")) if PLUGINS.is_dir() else []:
        for line in path.read_text(errors="replace").splitlines():
            words = line.split("#")[0].split()
            if len(words) > 1 and words[0] in ("required", "optional"):
                found.append(words[1])
    return found


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Read and check; the result for Ansible."""
    new = wanted(params["version"])
    try:
        here = installed()
    except (OSError, subprocess.CalledProcessError) as error:
        raise RefusalError(f"Packages could not be read: {error}") from error
    old = version_here(here)
    judge(old, new, {str(key): [str(each) for each in value] for key, value in params["upgrades"].items()})
    # Left by a killed run: apt does nothing until they are configured.
    unfinished = not all(package.whole for package in here)
    apt = Apt(params["lock_timeout_s"], False)
    if unfinished and params["download"] and not check:
        with NoStarts():
            apt.must("dpkg", "--configure", "-a", "--force-confdef", "--force-confold")
    if old != new and stale():
        apt.update()
    have = apt.candidates([package.name for package in here]) if old != new else {}
    try:
        packages = choose(here, new, have)
    except RefusalError:
        if apt.updated:
            raise
        apt.update()  # the lists may be older than the repository
        packages = choose(here, new, apt.candidates([package.name for package in here]))
    if params["download"] and old != new and not check:
        done = apt.install("--download-only", *packages)
        if done.returncode:
            raise RefusalError(explain(done.stderr or done.stdout))
    return {
        "changed": False,
        "installed": str(old),
        "needed": old != new or unfinished,
        "packages": packages,
        "plugins": spank_plugins() if old.release != new.release else [],
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "upgrades": {"type": "dict", "required": True},
            "download": {"type": "bool", "default": False},
            "lock_timeout_s": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
