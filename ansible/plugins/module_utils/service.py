"""Take a node out of service for an operation and return it: shared by slurm_drain and kubernetes_drain."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference

OPTIONS: dict[str, dict[str, Any]] = {
    "node": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["drained", "ready", "returned"], "required": True},
    "operation": {"type": "str", "required": True},
    "by": {"type": "str", "default": "unknown"},
    "wait_s": {"type": "int", "default": 0},
}


class Node(Protocol):
    """State of a node in its scheduler at one time.

    `holds` is what runs there, `out` the scheduler's name for a drained node, `remedy` the advice if
    it does not end. `ours` means that this operation has drained the node.
    """

    name: str
    holds: str
    out: str
    remedy: str
    taken: bool
    ours: bool
    ready: bool

    def status(self) -> str:
        """State and reason in one line."""
        ...

    def note(self) -> str:
        """The mark of this operation on the node."""
        ...

    def take(self) -> None:
        """Drain it in the name of the operation."""
        ...

    def give_back(self) -> None:
        """Return it to service."""
        ...

    def empty(self) -> str:
        """Wait until nothing runs on it; what still runs after the timeout, as a sentence."""
        ...

    def unready(self) -> str:
        """Why it is not ready, with a remedy."""
        ...


def carry_out(
    look: Callable[[], Node], params: dict[str, Any], check: bool, poll_s: float = 5
) -> dict[str, Any]:
    """Bring the node to `state`; the result for Ansible. `look` reads the node again."""
    if params["state"] == "ready":
        return _ready(look, params["wait_s"], poll_s, check)
    node = look()
    before = node.status()
    if params["state"] == "returned":
        entry = difference(node.name, f"{before}\n", "in service\n")
        if node.ours and not check:
            node.give_back()
        return {
            "changed": node.ours,
            "ours": node.ours,
            "before": before,
            "diff": [entry] if node.ours else [],
        }
    takes = not node.taken
    entry = difference(node.name, f"{before}\n", f"{node.note()}\n")
    result = {
        "changed": takes,
        "ours": takes or node.ours,
        "before": before,
        "diff": [entry] if takes else [],
    }
    if check:
        return result
    if takes:
        node.take()
    if why := node.empty():
        # Read again: an administrator may have taken the node meanwhile.
        now = look()
        if now.ours:
            now.give_back()
        kept = (
            f"was given back and takes {node.holds} again"
            if now.ours
            else f"stays {node.out}, as it was before"
        )
        raise RefusalError(f"{why} The node {kept}; nothing else was changed on it. {node.remedy}")
    return result


def _ready(look: Callable[[], Node], wait_s: float, poll_s: float, check: bool) -> dict[str, Any]:
    deadline = time.monotonic() + wait_s
    while not ((node := look()).ready or check):
        if time.monotonic() >= deadline:
            raise RefusalError(node.unready())
        time.sleep(poll_s)
    return {"changed": False, "ours": node.ours, "before": node.status()}
