"""This host as a Slurm node: running jobs, drain and resume."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from pathlib import Path

# The reasons of slurmctld for a node that it sets DOWN. It keeps a reason that is there
# (src/slurmctld/node_mgr.c).
REASONS_OF_SLURM = ("", "Not responding", "Node unexpectedly rebooted")
REASON = re.compile(r"(.*?) \[[^\]\s]*@[^\]]*\]")


class SlurmError(Exception):
    """Slurm failed, with the remedy."""


def run(*command: str) -> tuple[int, str]:
    """Run a program; exit code and output. 127 if it is not installed."""
    if shutil.which(command[0]) is None:
        return 127, f"{command[0]} is not installed"
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    return done.returncode, (done.stdout + done.stderr).strip()


class SlurmNode:
    """The node. `installed`: Slurm is installed; `known`: a controller answers and has the node.

    `reason` is the prefix of drain reasons of the caller; only such nodes are resumed.
    """

    def __init__(self, reason: str, name: str = "", root: str = "/") -> None:
        self.reason = reason
        self.root = Path(root)
        self.name = name or socket.gethostname().split(".")[0]
        code, self.output = run("scontrol", "-o", "show", "node", self.name)
        self.installed = code != 127
        self.known = code == 0 and f"NodeName={self.name} " in self.output

    def field(self, name: str) -> str:
        """A field of the node. The reason is the last one that may contain spaces."""
        _, _, rest = self.output.partition(f" {name}=")
        return rest if name == "Reason" else rest.partition(" ")[0]

    def drained(self) -> bool:
        """Whether no job can start on the node."""
        return self.known and "DRAIN" in self.field("State")

    def drained_by_us(self) -> bool:
        """Whether it is drained with the reason of the caller."""
        return self.drained() and self.field("Reason").startswith(self.reason)

    def down_by_others(self) -> bool:
        """Whether it is DOWN with a reason of another person or program, who has to return it."""
        reason = self.field("Reason")
        found = REASON.match(reason)
        text = (found[1] if found else reason).strip()
        return (
            self.known
            and self.field("State").startswith("DOWN")
            and not text.startswith(self.reason)
            and text not in REASONS_OF_SLURM
        )

    def jobs(self) -> list[str]:
        """Running jobs, or processes of job steps if no controller answers."""
        if self.known:
            code, output = run("squeue", "-h", "-w", self.name, "-t", "R,CG,S,CF,ST", "-o", "%A")
            if code:
                raise SlurmError(
                    f"squeue does not say which jobs run on {self.name}: {output}. Run again later."
                )
            return sorted(set(output.split()))
        names = self.root.glob("proc/[0-9]*/comm")
        return sorted(path.parent.name for path in names if _text(path) == "slurmstepd")

    def drain(self, why: str) -> None:
        """Drain the node."""
        self._update("State=DRAIN", f"Reason={self.reason} {why}")

    def resume(self) -> None:
        """Resume the node."""
        self._update("State=RESUME")

    def _update(self, *words: str) -> None:
        code, output = run("scontrol", "update", f"NodeName={self.name}", *words)
        if code:
            raise SlurmError(f"scontrol did not change the node {self.name} ({' '.join(words)}): {output}.")


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # the process ended meanwhile
        return ""
