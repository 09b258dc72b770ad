"""The node in Slurm: drained with a reason that starts with our mark, and taken back only then."""

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
    """What slurmctld says of this node."""

    state: str
    reason: str

    @property
    def drained(self) -> bool:
        """Whether it takes no jobs because somebody or something drained it."""
        return "DRAIN" in self.state.upper()


@dataclass(frozen=True)
class Order:
    """What to tell slurmctld: `drain` with a reason (also to change it), `undrain`, or nothing."""

    do: str = ""
    reason: str = ""


def parse(text: str) -> Node | None:
    """The node of `scontrol --oneliner show node`; None for anything else."""
    state = STATE.search(text)
    if state is None:
        return None
    reason = REASON.search(text)
    return Node(state[1], reason[1].strip() if reason else "")


def reason_of(findings: list[Finding], mark: str) -> str:
    """Why the node is drained, short enough for Slurm's listings."""
    said = mark + "; ".join(finding.short for finding in findings)
    text = " ".join(said.encode("ascii", "replace").decode().split())
    return text if len(text) <= MOST else text[: MOST - 3] + "..."


def is_ours(node: Node, config: Config, remembered: str | None) -> bool:
    """Whether this program drained it. A reason that a person has added to is the person's.

    `remembered` is the reason that was set last; None if that is lost, and the mark alone has to tell.
    """
    if not node.drained or not node.reason.startswith(config.mark.strip()):
        return False
    return remembered is None or node.reason == remembered


def decide(
    node: Node, drains: list[Finding], config: Config, remembered: str | None, good_runs: int
) -> Order:
    """What to do with the node. A drain that is not ours is left as it is."""
    ours = is_ours(node, config, remembered)
    if drains:
        reason = reason_of(drains, config.mark)
        if not node.drained or (ours and node.reason != reason):
            return Order("drain", reason)
        return Order()
    return Order("undrain") if ours and good_runs >= config.recovery_runs else Order()


def carry_out(order: Order, config: Config, limit_s: float) -> Done:
    """Tell slurmctld."""
    change = ["State=DRAIN", f"Reason={order.reason}"] if order.do == "drain" else ["State=UNDRAIN"]
    return run(["scontrol", "update", f"NodeName={config.node}", *change], limit_s)
