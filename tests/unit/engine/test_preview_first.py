"""`up` with policy packs runs a preview first, in either engine."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from gpufleet.engine.api import (
    Changes,
    DiagnosticEvent,
    Event,
    OnEvent,
    Op,
    PolicyEvent,
    ResourceEvent,
    RunResult,
    StackRequest,
)
from gpufleet.engine.preview_first import up_after_preview

VIOLATION = PolicyEvent("p", "cap", "mandatory", "too much", "urn::a")
PLANNED = ResourceEvent("urn::a", "t", "a", Op.CREATE, "done")
FAILED = ResourceEvent("urn::b", "t", "b", Op.CREATE, "failed", error="no")
REQUEST = StackRequest(
    project="p",
    stack="s",
    project_root=Path("/p"),
    program_dir=Path("/p"),
    state_file=Path("/p/s.json"),
    policy_packs=(Path("/pack"),),
)


class RecordingEngine:
    """An engine with a prepared preview result; `ran` has the verbs in order, `events` what was passed on."""

    def __init__(self, *, ok: bool) -> None:
        self._ok = ok
        self.ran: list[str] = []
        self.events: list[Event] = []

    def preview(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """A preview with a planned resource, a failed one and a violation."""
        self.ran.append("preview")
        for event in (PLANNED, FAILED, VIOLATION):
            on_event(event)
        return RunResult("embedded", "preview", self._ok, Changes(create=1), 0.1, violations=(VIOLATION,))

    def up(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """A successful `up`."""
        self.ran.append("up")
        on_event(PLANNED)
        return RunResult("embedded", "up", True, Changes(create=1), 0.1)

    def run(self, request: StackRequest) -> RunResult:
        """The `up` of the engines."""
        return up_after_preview(self.preview, self.up, request, self.events.append)


def test_failed_preview_is_the_result_of_an_unchanged_up() -> None:
    engine = RecordingEngine(ok=False)
    result = engine.run(REQUEST)
    assert engine.ran == ["preview"]
    assert (result.verb, result.ok, result.changes, result.violations) == (
        "up", False, Changes(), (VIOLATION,),
    )  # fmt: skip
    assert [event for event in engine.events if not isinstance(event, DiagnosticEvent)] == [FAILED, VIOLATION]


def test_successful_preview_sends_only_the_events_of_up() -> None:
    engine = RecordingEngine(ok=True)
    result = engine.run(REQUEST)
    assert engine.ran == ["preview", "up"]
    assert (result.ok, result.changes.create) == (True, 1)
    assert [event for event in engine.events if not isinstance(event, DiagnosticEvent)] == [PLANNED]


def test_preview_is_skipped_without_packs_and_after_the_callers_preview() -> None:
    for request in (replace(REQUEST, policy_packs=()), replace(REQUEST, previewed=True)):
        engine = RecordingEngine(ok=False)
        assert engine.run(request).ok
        assert engine.ran == ["up"]
        assert engine.events == [PLANNED]
