"""Preflight within a run: who is left out of it, with which reason."""

from __future__ import annotations

from typing import Any

from gpufleet.racks.configure.preflight import left_out, without_preflight
from gpufleet.racks.events import EventKind, HostStats, TaskEvent
from gpufleet.racks.preflight import PreflightVerdict
from gpufleet.racks.preflight.run import RESULT_KEY, PreflightMeasurements


def event(host: str, kind: EventKind, message: str = "", **result: Any) -> TaskEvent:
    return TaskEvent(kind=kind, host=host, task="t", role="preflight", message=message, result=result)


def verdict(host: str, check: str) -> PreflightVerdict:
    return PreflightVerdict(host, check, "fail", "", "", f"{check} is wrong")


def test_host_without_measurements_is_excluded_with_the_ansible_error() -> None:
    found = PreflightMeasurements()
    found(event("away", "unreachable", "no route"))
    found(event("nosudo", "failed", "sudo: a password is required"))
    hosts, why = left_out([verdict("away", "measured"), verdict("nosudo", "measured")], found)
    assert hosts == {"away": HostStats(unreachable=1), "nosudo": HostStats(failed=1)}
    assert [(item.host, item.kind, item.task, item.message) for item in why] == [
        ("away", "unreachable", "measured", "no route"),
        ("nosudo", "failed", "measured", "sudo: a password is required"),
    ]


def test_verdict_is_the_reason_for_a_measured_host() -> None:
    found = PreflightMeasurements()
    found(event("full", "ok", **{RESULT_KEY: {"schema": 1}}))
    found(event("full", "failed", "what the playbook said"))
    hosts, why = left_out([verdict("full", "disk"), verdict("full", "gpus")], found)
    assert hosts == {"full": HostStats(failed=1)}
    assert [(item.task, item.message) for item in why] == [("disk", "disk is wrong")]


def test_hardware_faults_exclude_hosts_only_if_only_preflight_runs() -> None:
    assert left_out([verdict("node", "gpus")], PreflightMeasurements()) == ({}, [])
    assert left_out([verdict("node", "gpus")], PreflightMeasurements(), strict=True)[0] == {
        "node": HostStats(failed=1)
    }


def test_no_host_fails_without_a_reason() -> None:
    found = PreflightMeasurements()
    found(event("odd", "ok", **{RESULT_KEY: {"schema": 1}}))
    found(event("odd", "failed", "what is expected of hosts cannot be read"))
    hosts, why = left_out([], found)
    assert hosts == {"odd": HostStats(failed=1)}
    assert [(item.task, item.message) for item in why] == [("t", "what is expected of hosts cannot be read")]


def test_preflight_tasks_are_not_counted() -> None:
    found = PreflightMeasurements()
    for kind in ("started", "ok", "started", "ok", "started", "skipped"):
        found(event("node", kind))
    found(event("other", "ok"))
    assert without_preflight(HostStats(ok=7, changed=2, skipped=4), "node", found.tasks) == HostStats(
        ok=5, changed=2, skipped=3
    )
