"""What the handler needs of a scheduler. All calls take many nodes or jobs at once, and may be repeated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpufleet.notices.events import Kind


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of the site, as EC2 describes it. `node` is the tag with its Slurm name, if it has one."""

    id: str
    address: str
    dns_name: str
    node: str = ""
    alive: bool = True
    spot: bool = False


@dataclass(frozen=True, slots=True)
class RunningJob:
    """Work on nodes: a Slurm job, or the pods of one gang.

    `run` tells this run of it from later ones, so that a job that already moved is not moved again.
    """

    id: str
    run: str
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class DrainedNode:
    """A node that this handler drained: its instance, and the text of its notice."""

    instance: str
    node: str
    kind: Kind
    deadline: float | None


class SchedulerError(Exception):
    """The scheduler could not be asked, or refused: the handler tries again."""


class Scheduler(Protocol):
    """Slurm or Kubernetes."""

    def nodes(self, instances: Sequence[Instance]) -> Mapping[str, str]:
        """Return the node of each instance that is one, by instance id."""

    def drain(self, nodes: Mapping[str, float | None], kind: Kind) -> Mapping[str, str]:
        """Stop new work on the nodes, with the end of each. Return what failed, by node."""

    def drained(self) -> Sequence[DrainedNode]:
        """Return nodes that this handler drained, where the scheduler keeps why."""

    def release(self, nodes: Collection[str]) -> None:
        """Take work again on nodes that this handler drained."""

    def jobs(self, nodes: Collection[str]) -> Sequence[RunningJob]:
        """Return what runs on the nodes."""

    def signal(self, jobs: Sequence[RunningJob], deadline: float) -> Mapping[str, str]:
        """Ask each whole job for a checkpoint until `deadline`. Return what failed, by job."""

    def acknowledged(self, jobs: Mapping[str, tuple[RunningJob, float]]) -> Mapping[str, str]:
        """Return `acknowledged` or `finished` for jobs that are; values have when each was signalled."""

    def move(self, job: RunningJob, nodes: Collection[str]) -> str:
        """Requeue a job that still has these nodes. Return its outcome: requeued, finished, or why not."""
