"""Slurm by its commands: states of cloud nodes, jobs that wait for nodes, changes of nodes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

TIMEOUT_S = 30
NODES_OF_A_COMMAND = 500

_JOBS = "JobID:32,StateCompact:16,Comment:64,NodeList:8192"
_CHECKPOINTED = "gpufleet:checkpointed:"
"""How a job's comment starts that has written its checkpoint (docs/guide/interruptions.md)."""

_NODES = "NodeList:64,NodeAddr:128,StateComplete:128,Reason:512"

Run = Callable[[Sequence[str]], str]


class SlurmError(Exception):
    """A command of Slurm failed, or did not end in time."""


@dataclass(frozen=True)
class Node:
    """A node as slurmctld sees it. `states` are the base state and its flags, in lower case."""

    name: str
    address: str
    states: frozenset[str]
    reason: str


def run_command(words: Sequence[str]) -> str:
    """Run a command and return its output. Raises SlurmError."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell; names are arguments
            list(words), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(f"{words[0]}: {error}") from None
    if done.returncode:
        raise SlurmError(f"{' '.join(words[:2])}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


@dataclass(frozen=True)
class Job:
    """A job on nodes. `state` is Slurm's short one (R, CF, CG), `answered` when its comment says that its
    checkpoint is written, in epoch seconds."""

    id: str
    state: str
    nodes: frozenset[str]
    answered: float


class Slurm:
    """The Slurm of this host."""

    def __init__(self, run: Run = run_command) -> None:
        self._run = run

    def nodes(self) -> dict[str, Node]:
        """Return the cloud nodes by name."""
        found = {}
        for line in self._run(["sinfo", "--all", "--noheader", "--Node", "-O", _NODES]).splitlines():
            name, address, states, reason = (
                line[start:end].strip() for start, end in ((0, 64), (64, 192), (192, 320), (320, 832))
            )
            flags = frozenset(re.split(r"[+*~#%!$@^-]", states.lower())) - {""}
            if "cloud" in flags:
                found[name] = Node(name, address, flags, "" if reason == "none" else reason)
        return found

    def waiting(self) -> list[frozenset[str]]:
        """Return the nodes of each job that waits until its nodes are up."""
        lines = self._run(
            ["squeue", "--all", "--noheader", "--states=CF", "-O", "NodeList:8192"]
        ).splitlines()
        return [frozenset(self.expand(line.strip())) for line in lines if line.strip()]

    def expand(self, hosts: str) -> list[str]:
        """Return the names of a host list, as Slurm writes it."""
        return self._run(["scontrol", "show", "hostnames", hosts]).split() if hosts else []

    def acts_here(self, host: str) -> bool:
        """Return whether the controller that decides now runs on this host: the first that answers."""
        for line in self._run(["scontrol", "ping"]).splitlines():
            found = re.match(r"Slurmctld\(\w+\) at (\S+) is (\w+)", line)
            if found and found[2] == "UP":
                return found[1].partition(".")[0] == host
        return False

    def addresses(self, nodes: Mapping[str, str]) -> None:
        """Tell slurmctld the addresses of nodes."""
        names = list(nodes)
        for first in range(0, len(names), NODES_OF_A_COMMAND):
            part = names[first : first + NODES_OF_A_COMMAND]
            addresses = ",".join(nodes[name] for name in part)
            self._update(part, f"nodeaddr={addresses}")

    def down(self, nodes: Collection[str], reason: str) -> None:
        """Set nodes down; Slurm queues their jobs again."""
        self._update_all(nodes, "state=down", f"reason={reason}")

    def drain(self, nodes: Collection[str], reason: str) -> None:
        """Let nodes take no further job."""
        self._update_all(nodes, "state=drain", f"reason={reason}")

    def resume(self, nodes: Collection[str]) -> None:
        """Let drained nodes take jobs again."""
        self._update_all(nodes, "state=resume")

    def jobs(self, nodes: Collection[str]) -> list[Job]:
        """Return the jobs that hold any of these nodes."""
        found: dict[str, Job] = {}
        for part in _parts(sorted(nodes)):
            words = ["squeue", "--all", "--noheader", "--nodelist", ",".join(part)]
            for line in self._run([*words, "--states=R,S,CF,CG", "-O", _JOBS]).splitlines():
                job, state, comment, names = (
                    line[start:end].strip() for start, end in ((0, 32), (32, 48), (48, 112), (112, 8304))
                )
                if job:
                    found[job] = Job(job, state, frozenset(self.expand(names)), _answered(comment))
        return list(found.values())

    def signal(self, job: str) -> None:
        """Ask the batch script of a job for a checkpoint."""
        self._run(["scancel", "--signal=USR1", "--batch", job])

    def requeue(self, job: str) -> None:
        """Queue a job again."""
        self._run(["scontrol", "requeue", job])

    def power_down(self, nodes: Collection[str]) -> None:
        """Power nodes down, whatever they do, so that Slurm can use them again."""
        self._update_all(nodes, "state=power_down_force")

    def free(self, nodes: Collection[str], reason: str) -> None:
        """Tell Slurm that nodes that are powered down and idle can take jobs."""
        self._update_all(nodes, "state=idle", f"reason={reason}")

    def _update_all(self, nodes: Collection[str], *words: str) -> None:
        for part in _parts(sorted(nodes)):
            self._update(part, *words)

    def _update(self, nodes: Sequence[str], *words: str) -> None:
        self._run(["scontrol", "update", f"nodename={','.join(nodes)}", *words])


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(names), NODES_OF_A_COMMAND):
        yield names[first : first + NODES_OF_A_COMMAND]


def _answered(comment: str) -> float:
    text = comment.removeprefix(_CHECKPOINTED)
    return float(text) if text != comment and text.isdecimal() else 0.0
