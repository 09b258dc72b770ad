#!/usr/bin/python
"""Whether a member of a quorum may leave for a reboot, and whether it is back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: quorum_member
short_description: Checks members of etcd, Slurm controllers, databases and subnet managers
description:
  - C(may_leave) fails if another member is down, so that the service would stop with this one.
  - C(back) waits until the services of this member answer again.
  - Services are those that this host is configured to run. Hosts without any pass.
options:
  state:
    description: What to check.
    type: str
    choices: [may_leave, back]
    required: true
  wait_s:
    description: Seconds to wait.
    type: int
    default: 300
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Wait for the services
  gpufleet.rack.quorum_member:
    state: back
"""

RETURN = r"""
services:
  description: Services of this host that were checked.
  type: list
  returned: success
"""

import json
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.workloads import active, run

ETCD = Path("/etc/kubernetes/manifests/etcd.yaml")
ADMIN = "/etc/kubernetes/admin.conf"
# `Slurmctld(primary) at ctl01 is UP`
PING = re.compile(r"^Slurmctld\([^)]*\) at (\S+) is (UP|DOWN)$", re.M)
POLL_S = 3


def slurm_controllers() -> dict[str, bool]:
    """Host -> whether its controller answers."""
    return {host: state == "UP" for host, state in PING.findall(run("scontrol", "ping").out)}


def etcd_members() -> dict[str, bool]:
    """Host -> whether its member of etcd is ready, by the local API server."""
    question = ("get", "pods", "--namespace", "kube-system", "--selector", "component=etcd", "-o", "json")
    found = run("kubectl", "--kubeconfig", ADMIN, *question)
    if found.code:
        raise RefusalError(f"The API server does not say which members of etcd are ready: {found.err}.")
    return {
        pod["spec"]["nodeName"]: ("Ready", "True")
        in [(each["type"], each["status"]) for each in pod["status"].get("conditions", [])]
        for pod in json.loads(found.out)["items"]
    }


def slurmctld_down(host: str) -> str:
    """Why this host's controller is not back."""
    states = slurm_controllers()
    return "" if states.get(host) else f"slurmctld does not answer `scontrol ping` ({states or 'no answer'})"


def slurmdbd_down(_host: str) -> str:
    """Why the accounting database is not back."""
    asked = run("sacctmgr", "--noheader", "--readonly", "show", "cluster")
    return f"slurmdbd does not answer: {asked.err}" if asked.code else ""


def etcd_down(host: str) -> str:
    """Why this host's member of etcd is not back."""
    try:
        ready = etcd_members().get(host, False)
    except RefusalError as error:
        return str(error)
    return "" if ready else "its member of etcd is not ready"


def unit_down(unit: str) -> Callable[[str], str]:
    """The check of a unit that has no question of its own."""
    return lambda _host: "" if active(unit) else f"{unit} is not running"


CHECKS: dict[str, Callable[[str], str]] = {
    "slurmctld": slurmctld_down,
    "slurmdbd": slurmdbd_down,
    "mariadb": unit_down("mariadb.service"),
    # The role subnet_manager masks the packages' own units.
    "gpufleet-opensm": unit_down("gpufleet-opensm.service"),
    "etcd": etcd_down,
}


def services() -> list[str]:
    """Services that this host is configured to run."""
    units = [name for name in CHECKS if name != "etcd"]
    enabled = [
        name for name in units if run("systemctl", "is-enabled", "--quiet", f"{name}.service").code == 0
    ]
    return enabled + (["etcd"] if ETCD.exists() else [])


def refuse_to_leave(host: str, found: list[str]) -> None:
    """Raise if the service would stop with this member."""
    members = {
        name: states
        for name, read in (("slurmctld", slurm_controllers), ("etcd", etcd_members))
        if name in found and len(states := read()) > 1
    }
    for name, states in members.items():
        others = [other for other, up in states.items() if up and other != host]
        needed = len(states) // 2 + 1 if name == "etcd" else 1
        if len(others) < needed:
            down = sorted(other for other, up in states.items() if not up and other != host)
            raise RefusalError(
                f"{host} must not reboot: {', '.join(down)} of {name} "
                f"{'does' if len(down) == 1 else 'do'} not answer, and {needed} other member"
                f"{'s' if needed > 1 else ''} must run. Repair it first, then run again with --resume."
            )


def wait_until_back(host: str, found: list[str], wait_s: float) -> None:
    """Return when all services answer; raises with those that do not."""
    deadline = time.monotonic() + wait_s
    while lacking := [why for name in found if (why := CHECKS[name](host))]:
        if time.monotonic() >= deadline:
            raise RefusalError(
                f"{host} is not back {wait_s} s after its reboot: {'; '.join(lacking)}. No other member is "
                "rebooted before it is. Repair it, then run again with --resume."
            )
        time.sleep(POLL_S)


def work(params: dict[str, Any]) -> dict[str, Any]:
    """Check; the result for Ansible."""
    host, found = socket.gethostname().split(".")[0], services()
    if params["state"] == "may_leave":
        refuse_to_leave(host, found)
    else:
        wait_until_back(host, found, params["wait_s"])
    return {"changed": False, "services": found}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["may_leave", "back"], "required": True},
            "wait_s": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params))


if __name__ == "__main__":
    main()
