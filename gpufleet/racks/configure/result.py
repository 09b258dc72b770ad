"""How a run ended: by host, by role, and what it changed or would change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from gpufleet.racks.configure.redact import Redactor
from gpufleet.racks.diffs import Diff
from gpufleet.racks.events import HostStats, TaskEvent
from gpufleet.racks.preflight.verdict import PreflightVerdict, verdict_to_json


class TaskChange(Struct, frozen=True):
    """One task that changed the same on some hosts. `diffs` are empty without --diff and for secrets."""

    role: str
    task: str
    hosts: tuple[str, ...]
    diffs: tuple[Diff, ...]


class Failure(Struct, frozen=True):
    """A task that failed on a host, or a host that was not reached."""

    host: str
    kind: str
    role: str
    task: str
    message: str


class Notice(Struct, frozen=True):
    """What a role reports without failing: what it left out, and what remains to be done by hand."""

    host: str
    role: str
    message: str


class ConfigureResult(Struct, frozen=True):
    """One run of `gpufleet configure`. Seconds by role are those of its tasks over all hosts.

    `cut_short` says why a run ended before it was through; empty for one that was not. `hosts` has
    every host that was to be visited, whatever became of it.
    """

    environment: str
    run: str
    check: bool
    hosts: Mapping[str, HostStats]
    duration_s: float
    changes: tuple[TaskChange, ...]
    failures: tuple[Failure, ...]
    verdicts: tuple[PreflightVerdict, ...]
    role_seconds: Mapping[str, float]
    cut_short: str = ""
    journal: Path | None = None
    page: Path | None = None
    notices: tuple[Notice, ...] = ()

    @property
    def failed_hosts(self) -> tuple[str, ...]:
        """Hosts on which something failed, or that were not reached."""
        return tuple(name for name, stats in self.hosts.items() if stats.failed or stats.unreachable)

    @property
    def changed(self) -> int:
        """Tasks that changed something, or would, over all hosts."""
        return sum(stats.changed for stats in self.hosts.values())

    @property
    def totals(self) -> HostStats:
        """The sums over all hosts."""
        stats = list(self.hosts.values())
        return HostStats(
            ok=sum(item.ok for item in stats),
            changed=sum(item.changed for item in stats),
            failed=sum(item.failed for item in stats),
            unreachable=sum(item.unreachable for item in stats),
            skipped=sum(item.skipped for item in stats),
        )


def result_to_json(result: ConfigureResult) -> dict[str, Any]:
    """The stable contract: `hosts{}` with counts, `duration_s`; beside them why and what."""
    return {
        "environment": result.environment,
        "run": result.run,
        "check": result.check,
        "hosts": {name: asdict(stats) for name, stats in result.hosts.items()},
        "duration_s": round(result.duration_s, 3),
        "changed": result.changed,
        "failed_hosts": list(result.failed_hosts),
        "failures": [asdict(failure) for failure in result.failures],
        "notices": [asdict(notice) for notice in result.notices],
        "changes": [to_builtins(change) for change in result.changes],
        "preflight": [verdict_to_json(item) for item in result.verdicts if item.status in ("fail", "warn")],
        "role_seconds": {name: round(value, 2) for name, value in result.role_seconds.items()},
        "cut_short": result.cut_short or None,
        "journal": None if result.journal is None else str(result.journal),
        "page": None if result.page is None else str(result.page),
    }


@dataclass(slots=True)
class Collector:
    """Takes the events of a run and keeps what is reported: counts, failures, changes by content.

    Memory goes with what changed in different ways, not with tasks times hosts.
    """

    redactor: Redactor
    _counts: dict[str, HostStats] = field(default_factory=dict)
    _failures: list[Failure] = field(default_factory=list)
    _changes: dict[tuple[str, str, tuple[Diff, ...]], set[str]] = field(default_factory=dict)
    _seconds: dict[str, float] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    def __call__(self, event: TaskEvent) -> None:
        """Take one event."""
        if event.kind == "started":
            return
        role = event.role or "(play)"
        self._seconds[role] = self._seconds.get(role, 0.0) + event.duration_s
        stats = self._counts.get(event.host, HostStats())
        counted = {"changed": {"ok": stats.ok + 1, "changed": stats.changed + 1}}.get(
            event.kind, {event.kind: getattr(stats, event.kind) + 1}
        )
        self._counts[event.host] = replace(stats, **counted)
        if event.kind in ("failed", "unreachable"):
            message = self.redactor.text(event.message)
            self._failures.append(Failure(event.host, event.kind, role, event.task, message))
        if event.notice:
            self.notices.append(Notice(event.host, role, self.redactor.text(event.notice)))
        if event.kind == "changed":
            diffs = tuple(
                Diff(self.redactor.text(diff.what), self.redactor.text(diff.text)) for diff in event.diffs
            )
            self._changes.setdefault((role, event.task, diffs), set()).add(event.host)

    @property
    def counts(self) -> dict[str, HostStats]:
        """Return the counts so far. Ansible's counts are exact if it finished."""
        return dict(self._counts)

    @property
    def role_seconds(self) -> dict[str, float]:
        """Seconds of tasks by role, the slowest first."""
        return dict(sorted(self._seconds.items(), key=lambda item: -item[1]))

    @property
    def changes(self) -> tuple[TaskChange, ...]:
        """What changed: tasks in the order in which they ran, and of one task by hosts."""
        order: dict[tuple[str, str], int] = {}
        for role, task, _ in self._changes:
            order.setdefault((role, task), len(order))
        found = [
            TaskChange(role, task, tuple(sorted(hosts)), diffs)
            for (role, task, diffs), hosts in self._changes.items()
        ]
        return tuple(sorted(found, key=lambda item: (order[item.role, item.task], item.hosts)))

    def failures(self, hosts: Mapping[str, HostStats]) -> tuple[Failure, ...]:
        """Failures of hosts that count as failed: one that a role handled itself is none."""
        wrong = {name for name, stats in hosts.items() if stats.failed or stats.unreachable}
        return tuple(item for item in self._failures if item.host in wrong)
