"""The node in Slurm: drained with a reason that starts with the mark, and resumed only with such a reason."""

from __future__ import annotations

import re
from dataclasses import dataclass

from health.commands import Done, run
from health.config import Config
from health.finding import Finding

STATE = re.compile(r"\bState=(\S+)")
REASON = re.compile(r"\bReason=(.*?) \[[^\]\s]*@[^\]]*\]")
MOST = 240


@dataclass(frozen=True)
class Node:
    """The node in slurmctld."""

    state: str
    reason: str

    @property
    def drained(self) -> bool:
        """Whether it is drained, by anyone."""
        return "DRAIN" in self.state.upper()


@dataclass(frozen=True)
class Order:
    """The order for slurmctld: `drain` with a reason (also to change it), `undrain`, or none."""

    do: str = ""
    reason: str = ""


def parse(text: str) -> Node | None:
    """The node in `scontrol --oneliner show node`; None for other text."""
    state = STATE.search(text)
    if state is None:
        return None
    reason = REASON.search(text)
    return Node(state[1], reason[1].strip() if reason else "")


def reason_of(findings: list[Finding], mark: str) -> str:
    """The drain reason, short enough for Slurm's listings."""
    said = mark + "; ".join(finding.short for finding in findings)
    text = " ".join(said.encode("ascii", "replace").decode().split())
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
    return Order("undrain") if ours and good_runs >= config.recovery_runs else Order()


def carry_out(order: Order, config: Config, limit_s: float) -> Done:
    """Send the order to slurmctld."""
    change = ["State=DRAIN", f"Reason={order.reason}"] if order.do == "drain" else ["State=UNDRAIN"]
    return run(["scontrol", "update", f"NodeName={config.node}", *change], limit_s)
