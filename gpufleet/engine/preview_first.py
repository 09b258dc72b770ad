"""`up` with policy packs: a preview runs first, and nothing changes unless it succeeds."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from gpufleet.engine.api import (
    Changes,
    DiagnosticEvent,
    Event,
    InterruptEvent,
    OnEvent,
    ResourceEvent,
    RunResult,
    StackRequest,
)

Run = Callable[[StackRequest, OnEvent], RunResult]


def up_after_preview(preview: Run, up: Run, request: StackRequest, on_event: OnEvent) -> RunResult:
    """Return the result of `up`, or that of a failed preview, as an `up` that changed nothing.

    A preview that fails for another reason than a violation stops the run too: its policies have not
    checked everything. Events of a successful preview are dropped, since `up` reports them again.
    """
    if not request.policy_packs or request.previewed:
        return up(request, on_event)
    kept: list[Event] = []

    def keep(event: Event) -> None:
        if isinstance(event, InterruptEvent):
            on_event(event)
        else:
            kept.append(event)

    on_event(DiagnosticEvent("info", "policies check a preview before anything is changed"))
    seen = preview(request, keep)
    if seen.ok:
        return up(request, on_event)
    for event in kept:
        if not isinstance(event, ResourceEvent) or event.status in ("failed", "skipped"):
            on_event(event)
    return replace(seen, verb="up", changes=Changes(), outputs={}, resources=())
