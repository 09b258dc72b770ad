"""A node out of service for an operation, and back: what slurm_drain and kubernetes_drain do alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference

OPTIONS: dict[str, dict[str, Any]] = {
    "node": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["drained", "ready", "returned"], "required": True},
    "operation": {"type": "str", "required": True},
    "by": {"type": "str", "default": "somebody"},
    "wait_s": {"type": "int", "default": 0},
}


class Node(Protocol):
    """A node as its scheduler has it at one moment.

    `holds` is what runs there, `out` how its scheduler calls a node that takes no more, `remedy` what helps
    where that does not end. `ours` means that this operation has taken it out of service.
    """

    name: str
    holds: str
    out: str
    remedy: str
    taken: bool
    ours: bool
    ready: bool

    def said(self) -> str:
        """State and reason in one line."""
        ...

    def note(self) -> str:
        """What `said` has while this operation keeps the node."""
        ...

    def take(self) -> None:
        """Lets nothing new start on it, in the operation's name."""
        ...

    def give_back(self) -> None:
        """Puts it into service again."""
        ...

    def empty(self) -> str:
        """Waits until nothing runs on it; what still does, in a sentence, if it does not end in time."""
        ...

    def unready(self) -> str:
        """Why it is not ready, in a sentence with a remedy."""
        ...


def carry_out(
    look: Callable[[], Node], params: dict[str, Any], check: bool, poll_s: float = 5
) -> dict[str, Any]:
    """Does what `state` says; the result for Ansible. `look` reads the node anew."""
    if params["state"] == "ready":
        return _ready(look, params["wait_s"], poll_s, check)
    node = look()
    before = node.said()
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
        # Not what it was: a person may have taken it over meanwhile.
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
    return {"changed": False, "ours": node.ours, "before": node.said()}
