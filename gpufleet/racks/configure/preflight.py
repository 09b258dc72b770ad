"""Preflight within a run: verdicts on measurements, and hosts to skip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from msgspec import structs

from gpufleet.catalog import Catalog
from gpufleet.plan.models import FleetPlan
from gpufleet.racks.configure.result import Failure
from gpufleet.racks.events import HostStats
from gpufleet.racks.preflight.evaluation import STOPPING, evaluate
from gpufleet.racks.preflight.expectations import expectations_for
from gpufleet.racks.preflight.run import PreflightMeasurements, measure
from gpufleet.racks.preflight.verdict import PreflightVerdict, failed
from gpufleet.racks.runner import OnTask, PlaybookRun

ROLE = "preflight"
VARIABLE = "preflight_expectations"
"""The role variable with the path of the expectations, by which a run decides which hosts continue."""


def preflight_hosts(
    plan: FleetPlan, catalog: Catalog, chosen: tuple[str, ...], playbook: PlaybookRun, on_task: OnTask
) -> tuple[tuple[PreflightVerdict, ...], dict[str, HostStats], list[Failure]]:
    """Measure the hosts in a separate run. Return the verdicts, and the hosts to skip with the reasons."""
    found, _ = measure(replace(playbook, tags=(), check=False, diff=False, variables={}), on_task)
    verdicts = verdicts_of(plan, catalog, chosen, found)
    return verdicts, *left_out(verdicts, found)


def verdicts_of(
    plan: FleetPlan, catalog: Catalog, hosts: Iterable[str], found: PreflightMeasurements
) -> tuple[PreflightVerdict, ...]:
    """The verdicts on `hosts`."""
    expected = expectations_for(plan, catalog)
    return evaluate(found.measurements, {name: expected[name] for name in hosts})


def left_out(
    verdicts: Iterable[PreflightVerdict], found: PreflightMeasurements, *, strict: bool = False
) -> tuple[dict[str, HostStats], list[Failure]]:
    """Return the hosts that a run skips, with reasons.

    Those are the ones on which nothing can be installed; with `strict` all that fail a check.
    """
    hosts: dict[str, HostStats] = {}
    why: list[Failure] = []

    def leave_out(host: str, kind: str, check: str, message: str) -> None:
        hosts[host] = HostStats(unreachable=1) if kind == "unreachable" else HostStats(failed=1)
        why.append(Failure(host, kind, ROLE, check, message))

    for verdict in failed(verdicts):
        if verdict.check not in STOPPING and not strict:
            continue
        # For a host without measurements, use Ansible's error.
        event = None if verdict.host in found.measurements else found.ended.get(verdict.host)
        if event is None:
            leave_out(verdict.host, "failed", verdict.check, verdict.message)
        else:
            leave_out(verdict.host, event.kind, verdict.check, event.message)
    for host, event in found.ended.items():
        if host not in hosts:
            leave_out(host, event.kind, event.task, event.message)
    return hosts, why


def without_preflight(stats: HostStats, host: str, measured: Mapping[tuple[str, str], int]) -> HostStats:
    """Ansible's counts of a host less those of preflight, which are not of what a run does."""
    return structs.replace(
        stats,
        ok=stats.ok - measured.get((host, "ok"), 0),
        skipped=stats.skipped - measured.get((host, "skipped"), 0),
    )
