"""How tasks get to hosts: plain ssh, or mitogen's strategy, which keeps one interpreter a host running."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from gpufleet.errors import InputError

Transport = Literal["auto", "ssh", "mitogen"]


def transport_environment(transport: Transport) -> dict[str, str]:
    """The settings of Ansible for a transport. `auto` is mitogen where it is installed, else ssh.

    Raises InputError when mitogen is asked for and is not installed.
    """
    if transport == "ssh":
        return {}
    if find_spec("ansible_mitogen") is None:
        if transport == "auto":
            return {}
        raise InputError(
            "mitogen is not installed",
            remedy="install gpufleet with its dependencies, or use --transport ssh",
        )
    return {
        "ANSIBLE_STRATEGY": "mitogen_unpinned",
        "ANSIBLE_STRATEGY_PLUGINS": str(Path(__file__).parent / "strategy"),
    }
