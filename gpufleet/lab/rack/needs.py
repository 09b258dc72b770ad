"""Requirements of a machine for a rack in a box, and what to install for them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from gpufleet.errors import InputError

# command -> the Debian and Ubuntu package that contains it
TOOLS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "apt-ftparchive": "apt-utils",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "gpg": "gpg",
    "gpg-agent": "gpg-agent",
    "ip": "iproute2",
    "mount": "mount",
    "nc": "netcat-openbsd",
    "nsenter": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def missing() -> str:
    """Return what this machine lacks, in one line; empty if a rack can start."""
    if sys.platform != "linux":
        return f"Linux (this is {sys.platform})"
    lacks = []
    if os.geteuid() != 0:
        lacks.append("root")
    packages = {package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if not KEYRING.is_file():
        packages.add("debian-archive-keyring")
    if packages:
        lacks.append(f"the packages {' '.join(sorted(packages))}")
    if not _kernel_has("overlay"):
        lacks.append("the kernel's overlay file system (modprobe overlay)")
    return ", ".join(lacks)


def require() -> None:
    """Raise InputError (exit code 2) with everything that is missing."""
    lacks = missing()
    if lacks:
        raise InputError(
            f"a rack in a box needs {lacks}",
            remedy="run `sudo scripts/setup system` once on Debian or Ubuntu, then run this as root",
        )


def _kernel_has(file_system: str) -> bool:
    known = Path("/proc/filesystems").read_text(encoding="utf-8").split()
    # A module that is not loaded yet is not listed; mount(8) loads it.
    release = os.uname().release
    modules = Path(f"/lib/modules/{release}/modules.dep")
    return file_system in known or (modules.is_file() and f"/{file_system}.ko" in modules.read_text())
