"""Run the playbook verify.yml and evaluate the measurements."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.plan.models import FleetPlan
from gpufleet.racks.configure.targets import ssh_arguments
from gpufleet.racks.configure.transport import Transport, transport_environment
from gpufleet.racks.events import TaskEvent
from gpufleet.racks.inventory import Inventory
from gpufleet.racks.runner import OnTask, PlaybookResult, PlaybookRun, run_playbook
from gpufleet.racks.verify.evaluation import evaluate
from gpufleet.racks.verify.expected import (
    PLAYBOOK,
    defaults_of_role,
    measuring_roles,
    roles_of_hosts,
    values_of_hosts,
)
from gpufleet.racks.verify.result import Result


class VerifyRequest(Struct, frozen=True):
    """What to verify. `inventory` is the file, `groups` the same as a structure; `facts` keeps facts."""

    plan: FleetPlan
    project: Path
    inventory: Path
    groups: Inventory
    hosts: tuple[str, ...]
    facts: Path
    known_hosts: tuple[Path, ...] = ()
    ssh_config: Path | None = None
    transport: Transport = "auto"
    forks: int | None = None
    environment: Mapping[str, str] | None = None
    secrets: Mapping[str, str] | None = None


class VerifyResult(Struct, frozen=True):
    """All results; `lost` are hosts that were not reached or on which measuring itself failed."""

    environment: str
    hosts: tuple[str, ...]
    results: tuple[Result, ...]
    lost: tuple[str, ...]
    duration_s: float

    @property
    def failures(self) -> tuple[Result, ...]:
        """What is not as the fleet file says."""
        return tuple(item for item in self.results if item.status == "fail")

    @property
    def warnings(self) -> tuple[Result, ...]:
        """What works, and will not for ever."""
        return tuple(item for item in self.results if item.status == "warn")

    def to_json(self) -> dict[str, Any]:
        """`hosts{}` with counts, `findings[]` with all that is not a pass, `duration_s`."""
        counts = {name: {"pass": 0, "warn": 0, "fail": 0} for name in self.hosts}
        for item in self.results:
            counts[item.host][item.status] += 1
        return {
            "environment": self.environment,
            "hosts": counts,
            "duration_s": round(self.duration_s, 3),
            "lost_hosts": list(self.lost),
            "findings": [item.to_json() for item in (*self.failures, *self.warnings)],
        }


@dataclass(slots=True)
class _Collector:
    """Takes the events of a run and keeps measurements, containers, and why a host has none."""

    on_task: Callable[[TaskEvent], None] | None
    measurements: dict[str, dict[str, Mapping[str, Any]]]
    containers: set[str]
    why: dict[str, str]

    def __call__(self, event: TaskEvent) -> None:
        found = event.result.get("measurements")
        if isinstance(found, Mapping):
            self.measurements.setdefault(event.host, {}).update(found)
        facts = event.result.get("ansible_facts")
        if isinstance(facts, Mapping) and facts.get("gpufleet_container"):
            self.containers.add(event.host)
        if event.kind in ("failed", "unreachable"):
            where = f"{event.role}: {event.task}: " if event.kind == "failed" else ""
            self.why[event.host] = f"{where}{event.message}"
        if self.on_task is not None:
            self.on_task(event)


def verify(request: VerifyRequest, on_task: OnTask | None = None) -> VerifyResult:
    """Measure and evaluate `hosts`. Changes nothing on them; `secrets` are those of management controllers.

    A host that was not reached is in the result. Raises what `run_playbook` raises.
    """
    started = time.monotonic()
    collector = _Collector(on_task, {}, set(), {})
    outcome = run_playbook(_playbook(request), collector)
    measuring = measuring_roles(request.project)
    results = evaluate(
        collector.measurements,
        roles_of_hosts(measuring, request.groups, request.hosts),
        values_of_hosts(request.groups),
        {role: defaults_of_role(request.project, role) for _, role in measuring},
        containers=frozenset(collector.containers),
        why=collector.why,
    )
    return VerifyResult(
        environment=request.plan.environment,
        hosts=request.hosts,
        results=results,
        lost=_lost(outcome, request.hosts),
        duration_s=time.monotonic() - started,
    )


def _lost(outcome: PlaybookResult, hosts: tuple[str, ...]) -> tuple[str, ...]:
    failed = set(outcome.failed_hosts) | (set(hosts) - set(outcome.hosts))
    return tuple(name for name in hosts if name in failed)


def _playbook(request: VerifyRequest) -> PlaybookRun:
    ssh = ssh_arguments(request.known_hosts, request.ssh_config) if request.known_hosts else ""
    extra = os.environ.get("ANSIBLE_SSH_COMMON_ARGS", "")
    words = f"{extra} {ssh}".strip()
    return PlaybookRun(
        project=request.project,
        playbook=PLAYBOOK,
        inventory=request.inventory,
        limit=",".join(request.hosts),
        forks=request.forks,
        environment={
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(request.facts),
            **({"ANSIBLE_SSH_COMMON_ARGS": words} if words else {}),
            **transport_environment(request.transport),
            **(request.environment or {}),
        },
        secrets=dict(request.secrets or {}),
    )
