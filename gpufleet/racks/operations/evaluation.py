"""Verification of one host during an operation, with the checks of `gpufleet verify`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpufleet.racks.verify.evaluation import evaluate
from gpufleet.racks.verify.expected import defaults_of_role, measuring_roles

REASON = "gpufleet operate: "
"""The prefix of drain reasons. The module gpufleet.rack.slurm_drain has the same."""
_STATE = "slurm_node_state"


def roles_of_host(project: Path, groups: Mapping[str, Sequence[str]], host: str) -> list[str]:
    """Return the roles that the host measures, by the plays of verify.yml. `groups` are those of Ansible."""
    return [role for group, role in measuring_roles(project) if host in groups.get(group, ())]


def verdict(
    project: Path,
    host: str,
    roles: Sequence[str],
    measured: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    operation: str = "",
    container: bool = False,
) -> list[str]:
    """Return the failures of the host, one line each.

    `measured` are the results of each role's tasks/verify.yml. A missing measurement is a failure. Warnings
    are omitted, because they do not keep a node from jobs.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for answer in measured.values():
        if isinstance(answer, Mapping) and isinstance(answer.get("measurements"), Mapping):
            found |= answer["measurements"]
    if _STATE in found:
        found[_STATE] = {
            **found[_STATE],
            "stdout": without_own_drain(str(found[_STATE].get("stdout", "")), operation),
        }
    results = evaluate(
        {host: found},
        {host: roles},
        {host: values},
        {role: defaults_of_role(project, role) for role in roles},
        containers=frozenset({host} if container else ()),
    )
    return [f"{item.role}: {item.check}: {item.message}" for item in results if item.status == "fail"]


def without_own_drain(text: str, operation: str) -> str:
    """Return `scontrol -o show node` without the drain of this operation.

    DOWN is removed too if the node answers: slurmctld keeps it after a reboot, and State=RESUME ends both.
    """
    if not operation or f" Reason={REASON}{operation} " not in f"{text} ":
        return text
    return re.sub(r"\bState=(\S+)", _resumed, text, count=1)


def _resumed(state: re.Match[str]) -> str:
    base, *flags = state[1].split("+")
    answers = base == "DOWN" and "NOT_RESPONDING" not in flags
    return "State=" + "+".join(["IDLE" if answers else base, *(flag for flag in flags if flag != "DRAIN")])
