"""Typed events of a playbook run, converted from ansible-runner's raw events."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from gpufleet.racks.diffs import Diff, task_diffs

EventKind = Literal["started", "ok", "changed", "failed", "unreachable", "skipped"]

_KINDS: Mapping[str, EventKind] = {
    "runner_on_start": "started",
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
}


class TaskEvent(Struct, frozen=True):
    """One task on one host. `result` is what the module returned, empty for `started`.

    `message` says why, for a task that failed or a host that was not reached. `notice` is what a task of
    `ansible.builtin.debug` reports. `diffs` are there for a
    change of a run with diffs, unless the task handles a secret. `started_s` and `ended_s` are seconds
    since the epoch by the clock of this machine.
    """

    kind: EventKind
    host: str
    task: str
    role: str
    duration_s: float = 0.0
    message: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    play: str = ""
    started_s: float | None = None
    ended_s: float | None = None
    diffs: tuple[Diff, ...] = ()
    notice: str = ""


class HostStats(Struct, frozen=True):
    """How many tasks of a host ended how."""

    ok: int = 0
    changed: int = 0
    failed: int = 0
    unreachable: int = 0
    skipped: int = 0


def task_event(raw: Mapping[str, Any]) -> TaskEvent | None:
    """The typed event of a raw one; None for plays, banners, statistics and failures that a role handles."""
    kind = _KINDS.get(str(raw.get("event")))
    data: Mapping[str, Any] = raw.get("event_data") or {}
    if kind is None or data.get("ignore_errors"):
        return None
    result = data.get("res")
    values: Mapping[str, Any] = result if isinstance(result, Mapping) else {}
    if kind == "ok" and _changed(raw, values):
        kind = "changed"
    return TaskEvent(
        kind=kind,
        host=str(data.get("host", "")),
        task=str(data.get("task", "")),
        role=str(data.get("role", "")),
        duration_s=float(data.get("duration") or 0.0),
        message=_message(values) if kind in ("failed", "unreachable") else "",
        result=values,
        play=str(data.get("play", "")),
        started_s=_moment(data.get("start")),
        ended_s=_moment(data.get("end")),
        diffs=task_diffs(values) if kind == "changed" else (),
        notice=_notice(data, values) if kind == "ok" else "",
    )


def is_done(event: TaskEvent) -> bool:
    """Whether an operation says by this event that it is through with the host."""
    facts = event.result.get("ansible_facts")
    return isinstance(facts, Mapping) and facts.get("operation_done") is True


def _changed(raw: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Whether a task changed something. Of one that handles a secret nothing is left of the result, and
    only the line that Ansible printed says so."""
    if "censored" in result:
        return "changed: [" in str(raw.get("stdout", ""))
    return bool(result.get("changed"))


def _notice(data: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    message = result.get("msg") if data.get("task_action") in ("debug", "ansible.builtin.debug") else None
    return " ".join(message.split()) if isinstance(message, str) else ""


def _moment(text: Any) -> float | None:
    """Seconds since the epoch of an ISO time; ansible-runner writes UTC, with or without saying so."""
    if not isinstance(text, str):
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)).timestamp()


def _message(result: Mapping[str, Any]) -> str:
    if "censored" in result:
        return "the reason is hidden, since the task handles a secret"
    text = str(result.get("msg") or result.get("stderr") or result.get("module_stderr") or "no reason given")
    return " ".join(text.split())[:500]


def host_stats(raw: Mapping[str, Any]) -> dict[str, HostStats] | None:
    """The final statistics by host, from the event that carries them; None for every other event."""
    if raw.get("event") != "playbook_on_stats":
        return None
    data: Mapping[str, Any] = raw.get("event_data") or {}
    names = {
        "ok": "ok",
        "changed": "changed",
        "failures": "failed",
        "dark": "unreachable",
        "skipped": "skipped",
    }
    counts: dict[str, dict[str, int]] = {}
    for theirs, ours in names.items():
        for host, count in (data.get(theirs) or {}).items():
            counts.setdefault(str(host), {})[ours] = int(count)
    return {host: HostStats(**values) for host, values in sorted(counts.items())}
