"""A documented change of a field of `changes_fleet`, and which steps of a preview belong to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.changes.observe import ObservedStep

SITES = {"kube": "kubernetes", "batch": "slurm"}
"""The sites of both schedulers, by name."""

PLUGINS = r":(DaemonSet|Release) chg-test-kube-base"
"""What runs on all nodes with devices: its tolerations have the taints of all groups."""


@dataclass(frozen=True)
class Case:
    """One change: `path` and `how` as documented, the written value, and whose steps count.

    `exclusive`: it changes everything, so nothing else is previewed with it. `environment`
    is that of the changed fleet.
    """

    path: str
    how: str
    changes: Mapping[str, Any]
    claims: str = ""
    scheduler: str = "kubernetes"
    exclusive: bool = False
    environment: str = "test"

    def __str__(self) -> str:
        # With its place: a change may run in several.
        return f"{self.path}: {self.how} ({self.scheduler}, {next(iter(self.changes))})"

    def owns(self, step: ObservedStep) -> bool:
        """Whether a step belongs to this case."""
        return self.exclusive or claims(self, f"{step.type} {step.name}")


def claims(case: Case, resource: str) -> bool:
    """Whether the case claims the steps of a resource, by its type and name."""
    return bool(case.claims and re.search(case.claims, resource))
