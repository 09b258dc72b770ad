"""`gpufleet` as a process whose rack hosts are this machine, except those in TEST_AWAY.

Run as `python -m tests.unit.cli.configure_local configure ...`: a test can kill a real process.
"""

from __future__ import annotations

import os
import sys
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


if __name__ == "__main__":
    from gpufleet.cli.main import main

    make_local(frozenset(filter(None, os.environ.get("TEST_AWAY", "").split(","))))
    sys.exit(main())
