"""Run the preflight playbook on rack hosts and evaluate the measurements."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpufleet.catalog import Catalog
from gpufleet.plan.models import FleetPlan
from gpufleet.racks.events import TaskEvent
from gpufleet.racks.inventory import build_inventory
from gpufleet.racks.inventory_text import render
from gpufleet.racks.preflight.evaluation import evaluate
from gpufleet.racks.preflight.expectations import expectations_for
from gpufleet.racks.preflight.verdict import PreflightVerdict
from gpufleet.racks.runner import OnTask, PlaybookResult, PlaybookRun, run_playbook

PLAYBOOK = "playbooks/preflight.yml"
RESULT_KEY = "preflight_measurements"


@dataclass(slots=True)
class PreflightMeasurements:
    """Collects the events of the role: measurements by host, and the event that ended the run of a host.

    `tasks` counts task results by (host, kind of event).
    """

    measurements: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    ended: dict[str, TaskEvent] = field(default_factory=dict)
    tasks: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __call__(self, event: TaskEvent) -> None:
        """Handle one event of the role."""
        self.tasks[event.host, event.kind] += 1
        if event.kind in ("failed", "unreachable"):
            self.ended[event.host] = event
        if isinstance(event.result.get(RESULT_KEY), Mapping):
            self.measurements[event.host] = _with_clock_offset(event.result[RESULT_KEY], event)


def measure(run: PlaybookRun, on_task: OnTask | None = None) -> tuple[PreflightMeasurements, PlaybookResult]:
    """Run a playbook with only the role `preflight`, and return the measurements from its events."""
    found = PreflightMeasurements()

    def collect(event: TaskEvent) -> None:
        found(event)
        if on_task is not None:
            on_task(event)

    return found, run_playbook(run, collect)


def _with_clock_offset(measured: Mapping[str, Any], event: TaskEvent) -> Mapping[str, Any]:
    """Add the clock offset of the host: 0 if its time is within that of the task."""
    clock = measured.get("clock")
    if not isinstance(clock, Mapping) or event.started_s is None or event.ended_s is None:
        return measured
    time_s = clock.get("time_s")
    if not isinstance(time_s, (int, float)):
        return measured
    offset = min(0.0, time_s - event.started_s) + max(0.0, time_s - event.ended_s)
    return {**measured, "clock": {**clock, "offset_s": round(offset, 3)}}


def preflight(
    plan: FleetPlan, catalog: Catalog, project: Path, *, limit: str = "", on_task: OnTask | None = None
) -> tuple[PreflightVerdict, ...]:
    """Measure the rack hosts of `plan` with the playbooks in `project`, and return the verdicts.

    With `limit` (an Ansible pattern) only the selected hosts are evaluated. An unreachable host is a failed
    verdict, not an exception.
    """
    with tempfile.TemporaryDirectory(prefix="gpufleet-inventory-") as folder:
        inventory = Path(folder) / "inventory.yaml"
        inventory.write_text(render(build_inventory(plan, catalog)), encoding="utf-8")
        run = PlaybookRun(
            project=project, playbook=PLAYBOOK, inventory=inventory, limit=limit or "rack_hosts"
        )
        measured, result = measure(run, on_task)
    expected = expectations_for(plan, catalog)
    if limit:
        expected = {host: item for host, item in expected.items() if host in result.hosts}
    return evaluate(measured.measurements, expected)
