"""What runs on this host beside its scheduler: Docker containers, processes that use devices, logins."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection
from typing import Any, NamedTuple

from ansible_collections.gpufleet.rack.plugins.module_utils.device_processes import (
    GPU,
    MONITORS,
    RDMA,
    device_processes,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError

MISSING = 127


class ProgramResult(NamedTuple):
    """A finished program."""

    code: int
    out: str
    err: str


def run(*command: str) -> ProgramResult:
    """Run a program; code 127 if it is not installed, 124 if it takes longer than two minutes."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except FileNotFoundError:
        return ProgramResult(MISSING, "", f"{command[0]} is not installed")
    except subprocess.TimeoutExpired:
        return ProgramResult(124, "", f"{command[0]} took longer than 120 s")
    return ProgramResult(done.returncode, done.stdout, " ".join(done.stderr.split()))


def active(unit: str) -> bool:
    """Whether systemd runs a unit."""
    return run("systemctl", "is-active", "--quiet", unit).code == 0


def containers(*, with_gpus: bool) -> list[str]:
    """Running Docker containers, as `container notebook (pytorch:24.08)`; only those with GPUs on demand."""
    listed = run("docker", "ps", "--quiet")
    if listed.code == MISSING or (listed.code and not active("docker.service")):
        return []
    ids = listed.out.split()
    shown = run("docker", "inspect", *ids) if ids and not listed.code else listed
    if shown.code:
        raise RefusalError(
            f"Docker does not say which containers run: {shown.err}. Run again when the daemon answers."
        )
    return sorted(
        f"container {item['Name'].lstrip('/')} ({item['Config']['Image']})"
        for item in (json.loads(shown.out) if ids else [])
        if not with_gpus or _has_gpus(item["HostConfig"])
    )


def _has_gpus(host: dict[str, Any]) -> bool:
    devices = [str(device.get("PathOnHost", "")) for device in host.get("Devices") or []]
    return bool(
        host.get("DeviceRequests")
        or host.get("Runtime") == "nvidia"
        or host.get("Privileged")
        or [name for name in devices if name.startswith((GPU, RDMA))]
    )


def live_restore() -> bool:
    """Whether containers survive a restart of the Docker daemon."""
    return run("docker", "info", "--format", "{{.LiveRestoreEnabled}}").out.strip() == "true"


def processes(pods: Collection[str] = ()) -> list[str]:
    """Processes that use GPUs or RDMA adapters.

    Those that only show the state of GPUs are left out, and those of `pods` (UIDs), which belong to the node.
    """
    return [f"process {each}" for each in device_processes(GPU, RDMA, ignored=MONITORS, pods=pods)]


def logins() -> list[str]:
    """Users who are logged in, except the one that runs this."""
    listed = run("loginctl", "list-users", "--no-legend")
    own = {"root", os.environ.get("SUDO_USER", "")}
    states = {}
    for line in listed.out.splitlines() if not listed.code else []:
        words = line.split()
        if len(words) > 1 and words[1] not in own:
            states[words[1]] = run("loginctl", "show-user", words[1], "--property=State", "--value").out
    # Users with lingering services are "lingering", those who have logged out "closing".
    present = [name for name, state in states.items() if state.strip() in ("active", "online")]
    return [f"login of {name}" for name in sorted(present)]
