"""`gpufleet` as a process whose rack hosts are this machine, except those in TEST_AWAY.

Run as `python -m tests.unit.cli.configure_local configure ...`: a test can kill a real process.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpufleet.racks import inventory


def make_local(away: frozenset[str]) -> None:
    """Let Ansible reach hosts without ssh; the hosts of `away` are unreachable."""
    ask = inventory._host_vars

    def answer(site: Any, host: Any) -> dict[str, Any]:
        if host.name in away:
            return ask(site, host) | {"ansible_host": "127.0.0.1", "ansible_port": 1}
        here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        return ask(site, host) | here

    inventory._host_vars = answer


def show_debian_12() -> None:
    """Show this process and its children Debian 12 on Debian 13, which the roles refuse. Needs root."""
    release = platform.freedesktop_os_release()
    if sys.version_info >= (3, 12) and (release["ID"], release.get("VERSION_ID")) == ("debian", "13"):
        os.unshare(os.CLONE_NEWNS)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n')
            file.flush()
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            subprocess.run(["mount", "--bind", file.name, Path("/etc/os-release").resolve()], check=True)


if __name__ == "__main__":
    from gpufleet.cli.main import main

    show_debian_12()

    make_local(frozenset(filter(None, os.environ.get("TEST_AWAY", "").split(","))))
    sys.exit(main())
