#!/usr/bin/python
"""Wait until parts of Slurm answer, and report those that do not."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_wait
short_description: Waits for accounting, controllers, nodes or jobs of Slurm
description:
  - Polls Slurm commands until everything listed answers, and fails with what does not.
  - Changes nothing, and waits for nothing in check mode.
options:
  cluster:
    description: Cluster that accounting must know; empty for none.
    type: str
    default: ""
  controllers:
    description: Hosts whose slurmctld must be up.
    type: list
    elements: str
    default: []
  version:
    description: Required version of slurmctld or of the nodes; empty for any.
    type: str
    default: ""
  nodes:
    description: Nodes that must be registered and answer. They may be drained.
    type: list
    elements: str
    default: []
  jobs:
    description: IDs of jobs that must be in the queue or in accounting.
    type: list
    elements: int
    default: []
  timeout_s:
    description: Timeout in seconds.
    type: int
    default: 120
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Wait until accounting has converted its database
  gpufleet.rack.slurm_wait:
    cluster: dc1
    timeout_s: 3600
"""

RETURN = r"""
waited_s:
  description: Elapsed seconds.
  type: float
  returned: success
"""

import re
import subprocess
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish

PAUSE_S = 0.5
ASK_S = 30


def ask(*words: str) -> str | None:
    """The output of a command; None if it fails or hangs."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=ASK_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def accounting(cluster: str) -> list[str]:
    """What is missing in accounting."""
    output = ask("sacctmgr", "-n", "-P", "show", "cluster", "format=Cluster")
    if output is None:
        why = "`journalctl -u slurmdbd` on its host; it may still convert its database"
        return [f"slurmdbd does not answer ({why})"]
    return [] if cluster in output.split() else [f"slurmdbd has no cluster {cluster}"]


def controllers(hosts: list[str], version: str) -> list[str]:
    """Controllers that are down or have another version."""
    # It fails if one of them is down, and names it.
    done = subprocess.run(["scontrol", "ping"], capture_output=True, text=True, check=False, timeout=ASK_S)
    up = {found[1] for found in re.finditer(r"Slurmctld\(\S+\) at (\S+) is UP", done.stdout)}
    missing = [f"slurmctld on {host} does not answer" for host in hosts if host not in up]
    if not missing and version:
        found = re.search(r"SLURM_VERSION\s*=\s*(\S+)", ask("scontrol", "show", "config") or "")
        runs = found[1] if found else "of an unknown version"
        if runs != version:
            missing.append(f"slurmctld is {runs} and has to be {version}")
    return missing


def answers(state: str) -> bool:
    """Whether slurmd answers.

    A drained node that did not answer for SlurmdTimeout stays DOWN when it answers again.
    """
    if "+DRAIN" in state:
        state = state.removeprefix("DOWN")
    return not any(word in state for word in ("DOWN", "UNKNOWN", "NOT_RESPONDING", "*"))


def nodes(names: list[str], version: str) -> list[str]:
    """Nodes that do not answer, or have another version."""
    output = ask("scontrol", "-o", "show", "node", ",".join(names))
    if output is None:
        return ["slurmctld does not answer"]
    missing = []
    for name in names:
        line = next((each for each in output.splitlines() if f"NodeName={name} " in each), "")
        state = re.search(r"\bState=(\S+)", line)
        runs = re.search(r"\bVersion=(\S+)", line)
        if state is None:
            missing.append(f"Slurm does not know {name}")
        elif not answers(state[1]):
            missing.append(f"{name} is {state[1]}")
        elif version and (runs is None or runs[1] != version):
            missing.append(
                f"slurmd of {name} is {runs[1] if runs else 'of an unknown version'} and has to be {version}"
            )
    return missing


def jobs(numbers: list[int]) -> list[str]:
    """Jobs that are in neither the queue nor accounting."""
    queue = ask("squeue", "-h", "-a", "-o", "%A")
    if queue is None:
        return ["slurmctld does not answer"]
    known = set(queue.split())
    rest = [str(number) for number in numbers if str(number) not in known]
    if rest:
        output = ask(
            "sacct", "-X", "-n", "-P", "-a", "-S", "1970-01-01", "-j", ",".join(rest), "-o", "JobIDRaw"
        )
        known |= set((output or "").split())
    return [
        f"job {number} is neither in the queue nor in accounting" for number in rest if number not in known
    ]


def missing(params: dict[str, Any]) -> list[str]:
    """Everything that is still missing."""
    found = []
    if params["cluster"]:
        found += accounting(params["cluster"])
    if params["controllers"]:
        found += controllers(params["controllers"], "" if params["nodes"] else params["version"])
    if params["nodes"]:
        found += nodes(params["nodes"], params["version"])
    if params["jobs"]:
        found += jobs(params["jobs"])
    return found


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Wait; the result for Ansible."""
    started = time.monotonic()
    while not check and (left := missing(params)):
        if time.monotonic() - started > params["timeout_s"]:
            raise RefusalError(
                f"After {params['timeout_s']} s: "
                f"{'; '.join(left[:8])}{' and more' if len(left) > 8 else ''}. Fix the "
                "cause and run again."
            )
        time.sleep(PAUSE_S)
    return {"changed": False, "waited_s": round(time.monotonic() - started, 1)}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "default": ""},
            "controllers": {"type": "list", "elements": "str", "default": []},
            "version": {"type": "str", "default": ""},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "jobs": {"type": "list", "elements": "int", "default": []},
            "timeout_s": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
