"""Whether a node is drained and idle in its scheduler."""

from __future__ import annotations

import subprocess

MISSING = 127


def run(*words: str) -> tuple[int, str]:
    """Exit code and output of a command; 127 where it is not installed."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        return MISSING, ""
    return done.returncode, done.stdout + done.stderr


def slurm_refusal(node: str) -> str:
    """Why the Slurm node must not change, empty if it may: it is drained and idle, or Slurm does not have
    it."""
    code, said = run("scontrol", "-o", "show", "node", node)
    if code == MISSING or "not found" in said:
        return ""
    if code != 0:
        return (
            f"Whether jobs run on {node} is unknown: scontrol says {' '.join(said.split())!r}. "
            "Wait until slurmctld answers."
        )
    fields = dict(word.split("=", 1) for word in said.split() if "=" in word)
    state = fields.get("State", "").upper()
    idle = not {"ALLOCATED", "MIXED", "COMPLETING"} & set(state.replace("*", "").split("+"))
    if "DRAIN" in state and idle and fields.get("CPUAlloc", "0") == "0":
        return ""
    remedy = (
        f"`scontrol update nodename={node} state=drain reason=maintenance`, wait until it is drained, "
        "and run again"
    )
    return f"{node} is {state or 'in an unknown state'} in Slurm: jobs may use its GPUs. {remedy}."
