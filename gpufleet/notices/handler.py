"""From a notice to a node without work: the steps, each written down before the next."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpufleet.notices.audit import Audit
from gpufleet.notices.cloud import CloudErrors
from gpufleet.notices.events import Kind
from gpufleet.notices.metrics import Metrics
from gpufleet.notices.notes import Case, Notes, SignalledJob
from gpufleet.notices.scheduler import Instance, RunningJob, Scheduler, SchedulerError
from gpufleet.notices.settings import HandlerSettings

REQUEUE_S = 10
"""Kept before the end of an instance to requeue its jobs."""

POLL_S = 1.0
"""Between reads of acknowledgements."""

RECENT_S = 60
"""An instance with a notice of this age still runs: the shortest notice is two minutes."""

REPLACED = ("maintenance", "rebalance")
"""Notices after which the handler ends the drained instance; after others AWS does, or the group shrinks."""

JOIN_S = 20 * 60
"""An instance of a spent budget without a node may still start. After this time it ends without one."""


class CloudCalls(Protocol):
    """What the steps need of AWS."""

    def instances(self, ids: Sequence[str]) -> Mapping[str, Instance]:
        """Return the site's instances among these, by id."""

    def known(self, ids: Sequence[str]) -> Mapping[str, Instance]:
        """Return those that ran a minute ago, without a call."""

    def of_reservation(self, reservation: str) -> Sequence[str]:
        """Return the site's instances in a reservation."""

    def replace(self, instance: str) -> str:
        """End a drained instance, so that its group starts another."""

    def remove(self, instance: str) -> str:
        """End a drained instance, and make its group smaller."""


@dataclass
class NoticeWorker:
    """Moves cases on. One thread runs it; a failed step is tried again, and stops no other case."""

    settings: HandlerSettings
    notes: Notes
    cloud: CloudCalls
    scheduler: Scheduler
    audit: Audit
    metrics: Metrics
    clock: Callable[[], float] = time.time
    wake: threading.Event = field(default_factory=threading.Event)
    _looked: float = 0.0

    def run(self, stop: threading.Event, after: Callable[[], None]) -> None:
        """Work until `stop`; `after` runs after each round."""
        while not stop.is_set():
            busy = self.round()
            after()
            if not busy:
                self.wake.wait(0.25)
                self.wake.clear()

    @property
    def _only_cordoned(self) -> tuple[Kind, ...]:
        """The notices after which running jobs stay."""
        return () if self.settings.rebalance == "drain" else ("rebalance",)

    def restore(self) -> None:
        """Take up nodes that were drained before the notes were lost."""
        found = self.scheduler.drained()
        restored = self.notes.restore(found, self.clock(), self._only_cordoned)
        for each in found:
            if each.instance in restored:
                self.audit.write("restored", subject=each.instance, node=each.node, kind=each.kind)

    def round(self) -> bool:
        """Do every step once; return whether any had work."""
        steps = (self._identify, self._drain, self._release, self._signal, self._collect, self._replace)
        worked = [self._guarded(step) for step in steps]
        return any(worked)

    def _guarded(self, step: Callable[[float], list[str]]) -> bool:
        try:
            return bool(step(self.clock()))
        except (SchedulerError, *CloudErrors) as error:
            name = step.__name__.strip("_")
            self.metrics.count("_errors", "step", name)
            self.audit.write("failed", step=name, error=str(error)[:500])
            return False

    def _failed(self, step: str, cases: Sequence[Case], error: object) -> None:
        self.notes.postpone([case.subject for case in cases], self.clock())
        self.metrics.count("_errors", "step", step, len(cases))
        self.audit.write(
            "failed", step=step, subjects=[each.subject for each in cases], error=str(error)[:500]
        )

    def _identify(self, now: float) -> list[str]:
        """Find the node of each instance. An instance without the site's tags is another's, and is left."""
        cases = self.notes.due("new", now)
        if not cases:
            return []
        try:
            for case in cases:
                if case.subject.startswith("cr-"):
                    self.notes.expand(case, self.cloud.of_reservation(case.subject), now)
                    self.audit.write("expanded", subject=case.subject)
            ids = [case.subject for case in cases if not case.subject.startswith("cr-")]
            ours = self._instances(cases)
            drained = {case.subject for case in cases if case.kind == "budget"}
            alive = [each for each in ours.values() if each.alive and (each.spot or each.id not in drained)]
            nodes = self.scheduler.nodes(alive) if alive else {}
        except (SchedulerError, *CloudErrors) as error:
            self._failed("identify", cases, error)
            return []
        starting = {each.id for each in alive if each.id in drained and each.id not in nodes}
        self._await_nodes([case for case in cases if case.subject in starting], now)
        left = {
            each: _why_left(ours.get(each), drained=each in drained)
            for each in ids
            if each not in nodes and each not in starting
        }
        for subject, why in left.items():
            self.metrics.count("", "outcome", why.replace(" ", "-"))
            self.audit.write("left", subject=subject, reason=why)
        self.notes.move([case for case in cases if case.subject in left], "left", now)
        self.notes.move([case for case in cases if case.subject in nodes], "found", now, nodes=nodes)
        return [case.subject for case in cases]

    def _await_nodes(self, cases: Sequence[Case], now: float) -> None:
        """Wait until instances of a spent budget have joined, so that no job starts on them meanwhile."""
        late = [case for case in cases if now - case.received >= JOIN_S]
        self.notes.postpone([case.subject for case in cases if case not in late], now)
        self.notes.move(late, "moved", now)

    def _instances(self, cases: Sequence[Case]) -> dict[str, Instance]:
        """Return the site's instances among those of the cases. One with an old notice may have ended, and a
        new one may have its node: it is looked up."""
        now = self.clock()
        ids = [case.subject for case in cases if not case.subject.startswith("cr-")]
        recent = [case.subject for case in cases if now - case.received < RECENT_S]
        found = dict(self.cloud.known(recent))
        rest = [each for each in ids if each not in found]
        return found | dict(self.cloud.instances(rest)) if rest else found

    def _drain(self, now: float) -> list[str]:
        cases = self.notes.due("found", now)
        kinds: dict[Kind, list[Case]] = defaultdict(list)
        for case in cases:
            kinds[case.kind].append(case)
        for kind, group in kinds.items():
            try:
                failed = self.scheduler.drain({case.node: case.deadline for case in group}, kind)
            except SchedulerError as error:
                self._failed("drain", group, error)
                continue
            drained = [case for case in group if case.node not in failed]
            for case in group:
                if case.node in failed:
                    self._failed("drain", [case], failed[case.node])
            self._drained(drained, kind)
        return [case.subject for case in cases]

    def _drained(self, cases: Sequence[Case], kind: Kind) -> None:
        now = self.clock()
        only_cordon = kind in self._only_cordoned
        self.notes.move(
            cases,
            "cordoned" if only_cordon else "drained",
            now,
            due={case.subject: self._signal_at(case) for case in cases},
        )
        for case in cases:
            # A node that a recommendation cordoned reacts to its notice with the signal.
            self.metrics.react(now - case.received)
            self.audit.write(
                "cordoned" if only_cordon else "drained",
                subject=case.subject,
                node=case.node,
                kind=kind,
                after_s=round(now - case.received, 3),
            )

    def _signal_at(self, case: Case) -> float:
        """Return when jobs are signalled: at once; before a far maintenance they may end by themselves."""
        if case.kind != "maintenance" or case.deadline is None:
            return 0.0
        return case.deadline - self.settings.maintenance_s

    def _release(self, now: float) -> list[str]:
        """Give nodes work again whose maintenance was called off, or whose budget is resumed."""
        cases = self.notes.due("withdrawn", now)
        if not cases:
            return []
        try:
            self.scheduler.release([case.node for case in cases if case.node])
        except SchedulerError as error:
            self._failed("release", cases, error)
            return []
        self.notes.move(cases, "left", now)
        for case in cases:
            self.audit.write("released", subject=case.subject, node=case.node)
        return [case.subject for case in cases]

    def _signal(self, now: float) -> list[str]:
        """Signal each job on the nodes once, however many of its nodes are interrupted."""
        found = self.notes.due("drained", now)
        early = {case.subject: at for case in found if (at := self._signal_at(case)) > now}
        self.notes.move([case for case in found if case.subject in early], "drained", now, due=early)
        cases = [case for case in found if case.subject not in early]
        if not cases:
            return []
        by_node = {case.node: case for case in cases}
        try:
            jobs = self.scheduler.jobs(list(by_node))
        except SchedulerError as error:
            self._failed("signal", cases, error)
            return []
        self.notes.link(
            (by_node[node].subject, job, node) for job in jobs for node in job.nodes if node in by_node
        )
        known = self.notes.known(jobs)
        until = {job.id: self._job_deadline(job, by_node, now) for job in jobs}
        fresh: dict[float, list[RunningJob]] = defaultdict(list)
        for job in jobs:
            if (job.id, job.run) not in known:
                fresh[until[job.id]].append(job)
        failed: dict[str, str] = {}
        for deadline, group in fresh.items():
            try:
                failed |= self.scheduler.signal(group, deadline)
            except SchedulerError as error:
                failed |= {job.id: str(error) for job in group}
        self.notes.signalled([(job, until[job.id]) for job in jobs if job.id not in failed], self.clock())
        for job in jobs:
            if job.id not in failed and (job.id, job.run) not in known:
                self.audit.write("signalled", job=job.id, nodes=sorted(job.nodes), until=until[job.id])
        stuck = {node for job in jobs if job.id in failed for node in job.nodes}
        for case in cases:
            if case.node in stuck:
                self._failed("signal", [case], next(iter(failed.values())))
        self.notes.move([case for case in cases if case.node not in stuck], "signalled", now)
        return [case.subject for case in cases]

    def _job_deadline(self, job: RunningJob, cases: Mapping[str, Case], now: float) -> float:
        ends = [cases[node].deadline for node in job.nodes if node in cases]
        last = [end - REQUEUE_S for end in ends if end is not None]
        return max(now, min([now + self.settings.checkpoint_s, *last]))

    def _collect(self, now: float) -> list[str]:
        """Requeue jobs that acknowledged, or whose time is up; then close their cases."""
        moved: list[str] = []
        if now - self._looked >= POLL_S:
            self._looked = now
            waiting = self.notes.waiting()
            answers = (
                self.scheduler.acknowledged({each.id: (each.job, each.signalled) for each in waiting})
                if waiting
                else {}
            )
            for each in waiting:
                answer = answers.get(each.id, "" if now < each.deadline else "no answer")
                if answer and self._move_job(each, answer):
                    moved.append(each.id)
        cases = self.notes.cases_without_open_jobs()
        self.notes.move(cases, "moved", now)
        return [*moved, *(case.subject for case in cases)]

    def _move_job(self, job: SignalledJob, answer: str) -> bool:
        outcome = "finished"
        if answer != "finished":
            try:
                outcome = self.scheduler.move(job.job, job.nodes)
            except SchedulerError as error:
                self.metrics.count("_errors", "step", "move")
                self.audit.write("failed", step="move", job=job.id, error=str(error)[:500])
                return False
        self.notes.close_job(job, outcome)
        self.metrics.count("_jobs", "outcome", f"{answer}-{outcome}".replace(" ", "-"))
        self.audit.write("moved", job=job.id, answer=answer, outcome=outcome, nodes=sorted(job.nodes))
        return True

    def _replace(self, now: float) -> list[str]:
        """Let the group replace an instance that AWS does not end by itself."""
        cases = self.notes.due("moved", now)
        for case in cases:
            end: Callable[[str], str] | None
            if case.kind in REPLACED:
                end = self.cloud.replace
            elif case.kind == "budget":
                end = self.cloud.remove
            else:
                end = None
            try:
                outcome = end(case.subject) if end is not None else "ended by AWS"
            except CloudErrors as error:
                self._failed("replace", [case], error)
                continue
            self.notes.move([case], "done", now)
            self.audit.write("done", subject=case.subject, node=case.node, outcome=outcome)
        return [case.subject for case in cases]


def _why_left(instance: Instance | None, *, drained: bool) -> str:
    if instance is None:
        return "foreign"
    if instance.alive and not instance.spot and drained:
        return "not spot"
    return "no node" if instance.alive else "gone"
