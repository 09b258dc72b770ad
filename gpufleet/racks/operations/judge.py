"""The verdict on one host in the middle of an operation: the judges of `gpufleet verify`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpufleet.racks.verify.expected import defaults_of_role, measuring_roles
from gpufleet.racks.verify.judge import judge

REASON = "gpufleet operate: "
"""What reasons of drains start with; the module gpufleet.rack.slurm_drain has the same."""
_STATE = "slurm_node_state"


def roles_of_host(project: Path, groups: Mapping[str, Sequence[str]], host: str) -> list[str]:
    """The roles that the host has to measure, by the plays of verify.yml. `groups` are Ansible's."""
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
    """What is wrong with the host, a line each; empty if nothing is.

    `measured` is what each role's tasks/verify.yml answered. What is missing is wrong. Warnings are not
    told: they do not keep a node from its jobs.
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
    results = judge(
        {host: found},
        {host: roles},
        {host: values},
        {role: defaults_of_role(project, role) for role in roles},
        containers=frozenset({host} if container else ()),
    )
    return [f"{item.role}: {item.check}: {item.message}" for item in results if item.status == "fail"]


def without_own_drain(text: str, operation: str) -> str:
    """`scontrol -o show node` as it will be once the node is returned, if this operation has drained it."""
    if not operation or f" Reason={REASON}{operation} " not in f"{text} ":
        return text
    return re.sub(r"(\bState=\S*?)\+DRAIN\b", r"\1", text)
