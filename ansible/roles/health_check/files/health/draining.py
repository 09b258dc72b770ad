"""When a node is drained and returned to its scheduler: the same rules for Slurm and Kubernetes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from health.config import Config
from health.finding import Finding

MOST = 240


class Node(Protocol):
    """The node in its scheduler. `stale` is whether it has our reason although it is not drained."""

    @property
    def state(self) -> str:
        """Its state in words."""

    @property
    def reason(self) -> str:
        """Why it is drained."""

    @property
    def drained(self) -> bool:
        """Whether it gets no new work until someone returns it, drained by anyone."""

    @property
    def stale(self) -> bool:
        """Whether our reason is left on a node in service."""


@dataclass(frozen=True)
class Order:
    """The order for the scheduler: `drain` with a reason (also to change it), `undrain`, or none."""

    do: str = ""
    reason: str = ""


def reason_of(findings: list[Finding], mark: str) -> str:
    """The drain reason, short enough for listings."""
    full = mark + "; ".join(finding.short for finding in findings)
    text = " ".join(full.encode("ascii", "replace").decode().split())
    return text if len(text) <= MOST else text[: MOST - 3] + "..."


def is_ours(node: Node, config: Config, remembered: str | None) -> bool:
    """Whether this program drained it. A reason edited by an administrator belongs to them.

    `remembered` is the last reason set; if it is None, only the mark decides.
    """
    if not node.drained or not node.reason.startswith(config.mark.strip()):
        return False
    return remembered is None or node.reason == remembered


def decide(
    node: Node, drains: list[Finding], config: Config, remembered: str | None, good_runs: int
) -> Order:
    """The order for the node. Drains by others are kept."""
    ours = is_ours(node, config, remembered)
    if drains:
        reason = reason_of(drains, config.mark)
        if not node.drained or (ours and node.reason != reason):
            return Order("drain", reason)
        return Order()
    return Order("undrain") if (ours or node.stale) and good_runs >= config.recovery_runs else Order()
