"""The node in Slurm: drained with a reason that starts with the mark, and resumed only with such a reason."""

from __future__ import annotations

import re
from dataclasses import dataclass

from health.commands import CommandResult, run
from health.config import Config
from health.draining import Order

NAME = "slurmctld"
STATE = re.compile(r"\bState=(\S+)")
REASON = re.compile(r"\bReason=(.*?) \[[^\]\s]*@[^\]]*\]")
# slurmctld sets a node DOWN that does not answer for SlurmdTimeout, and returns it if this is its reason.
# From 23.02 on it appends this to another reason (set_node_reason in src/slurmctld/node_mgr.c).
SILENT = "Not responding"


@dataclass(frozen=True)
class SlurmNode:
    """The node in slurmctld, which clears a reason when the node is resumed."""

    state: str
    reason: str
    stale: bool = False

    @property
    def drained(self) -> bool:
        """Whether it gets no jobs until someone resumes it: drained by anyone, or DOWN for a reason.

        A drain would replace the reason of others, and this program would later resume their node.
        """
        state = self.state.upper()
        return "DRAIN" in state or (state.startswith("DOWN") and self.reason not in ("", SILENT))


def question(config: Config) -> list[str]:
    """The command that shows the node."""
    return ["scontrol", "--oneliner", "show", "node", config.node]


def parse(text: str) -> SlurmNode | None:
    """The node in `scontrol --oneliner show node`; None for other text."""
    state = STATE.search(text)
    if state is None:
        return None
    reason = REASON.search(text)
    return SlurmNode(state[1], reason[1].strip().removesuffix(f" : {SILENT}") if reason else "")


def drain_by_hand(config: Config) -> str:
    """The command of an administrator that drains the node."""
    return f"scontrol update NodeName={config.node} State=DRAIN Reason=diagnostics"


def carry_out(order: Order, config: Config, limit_s: float) -> CommandResult:
    """Send the order to slurmctld.

    RESUME also ends the state DOWN, in which Slurm keeps a drained node after a reboot; UNDRAIN does not
    (scontrol(1)). A node that others have set DOWN has their reason: scontrol refuses State=DOWN without one.
    """
    change = ["State=DRAIN", f"Reason={order.reason}"] if order.do == "drain" else ["State=RESUME"]
    return run(["scontrol", "update", f"NodeName={config.node}", *change], limit_s)


def clear(_config: Config, _limit_s: float) -> str:
    """Jobs end by themselves on a drained node."""
    return ""
