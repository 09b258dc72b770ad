"""A scheduler whose nodes have no jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gpufleet.notices.events import Kind
from gpufleet.notices.scheduler import DrainedNode, Instance, RunningJob


class NoJobs:
    """Nodes by their instances, and what was drained why."""

    def __init__(self, nodes: Mapping[str, str]) -> None:
        self._nodes = nodes
        self.drained_nodes: dict[str, Kind] = {}

    def nodes(self, instances: Sequence[Instance]) -> Mapping[str, str]:
        return {each.id: self._nodes[each.id] for each in instances if each.id in self._nodes}

    def drain(self, nodes: Mapping[str, float | None], kind: Kind) -> Mapping[str, str]:
        self.drained_nodes |= dict.fromkeys(nodes, kind)
        return {}

    def drained(self) -> Sequence[DrainedNode]:
        return []

    def release(self, nodes: Collection[str]) -> None:
        for node in nodes:
            self.drained_nodes.pop(node, None)

    def jobs(self, nodes: Collection[str]) -> Sequence[RunningJob]:
        del nodes
        return []

    def signal(self, jobs: Sequence[RunningJob], deadline: float) -> Mapping[str, str]:
        raise AssertionError(jobs, deadline)

    def acknowledged(self, jobs: Mapping[str, tuple[RunningJob, float]]) -> Mapping[str, str]:
        raise AssertionError(jobs)

    def move(self, job: RunningJob, nodes: Collection[str]) -> str:
        raise AssertionError(job, nodes)
