"""Reports a run to its caller: events one at a time, counts, failures and resulting resources."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

from msgspec import Struct

from gpufleet.engine.api import (
    Changes,
    DiagnosticEvent,
    Event,
    InterruptEvent,
    OnEvent,
    Op,
    PlannedResource,
    PolicyEvent,
    RemediationEvent,
    ResourceEvent,
    Severity,
)
from gpufleet.engine.embedded.diffs import NO_DIFF, ResourceDiff
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.urns import is_default_provider, urn_name, urn_type
from gpufleet.engine.embedded.values import present


class Step(Struct, frozen=True):
    """One reported operation on one resource."""

    op: Op
    urn: str
    parent: str = ""
    diff: ResourceDiff = NO_DIFF
    started: float = 0.0


class Reporter:
    """Collects the events of a run and passes them on, one at a time.

    Default providers are internal: they are neither shown nor counted, as in the Pulumi CLI.
    """

    def __init__(self, on_event: OnEvent, *, dry_run: bool, show_secrets: bool) -> None:
        self._on_event = on_event
        self._dry_run = dry_run
        self._show_secrets = show_secrets
        self._lock = threading.Lock()
        self._counts: Counter[Op] = Counter()
        self._planned: dict[str, PlannedResource] = {}
        self.failures: list[ResourceEvent] = []
        self.diagnostics: list[DiagnosticEvent] = []
        self.violations: list[PolicyEvent] = []
        self.remediations: list[RemediationEvent] = []

    # -- steps

    def start(self, op: Op, urn: str, parent: str = "", diff: ResourceDiff = NO_DIFF) -> Step:
        """Report the start of a step (a preview only reports what it would do)."""
        step = Step(op, urn, parent, diff, time.monotonic())
        if not self._dry_run:
            self._send(self._event(step, "started"))
        return step

    def done(self, step: Step) -> None:
        """Report the success of a step."""
        elapsed = 0.0 if self._dry_run else time.monotonic() - step.started
        self._send(self._event(step, "done", elapsed_s=elapsed), count=step.op)

    def plain(self, op: Op, urn: str, parent: str = "", diff: ResourceDiff = NO_DIFF) -> None:
        """Report a step without a call to the cloud, which completes at once."""
        self._send(self._event(Step(op, urn, parent, diff), "done"), count=op)

    def failed(self, step: Step, message: str) -> None:
        """Report the failure of a step; `message` is the provider's or the engine's own."""
        elapsed = time.monotonic() - step.started if step.started else 0.0
        event = self._event(step, "failed", error=message, elapsed_s=elapsed)
        self.failures.append(event)
        self._send(event)

    def skipped(self, op: Op, urn: str, parent: str, reason: str) -> None:
        """Report that a resource is skipped because one of its dependencies failed."""
        event = self._event(Step(op, urn, parent), "skipped", error=reason)
        self.failures.append(event)
        self._send(event)

    def _event(self, step: Step, status: Any, *, error: str = "", elapsed_s: float = 0.0) -> ResourceEvent:
        return ResourceEvent(
            urn=step.urn,
            type=urn_type(step.urn),
            name=urn_name(step.urn),
            op=step.op,
            status=status,
            parent=step.parent,
            diff=step.diff.shown_keys(),
            replace_keys=step.diff.shown_replace_keys(),
            error=error,
            elapsed_s=elapsed_s,
        )

    def _send(self, event: Event, count: Op | None = None) -> None:
        internal = (
            isinstance(event, ResourceEvent)
            and event.status not in ("failed", "skipped")
            and is_default_provider(event.urn)
        )
        with self._lock:
            if count is not None and not internal:
                self._counts[count] += 1
            if not internal:
                self._on_event(event)

    # -- other events

    def log(self, severity: Severity, message: str, urn: str = "") -> None:
        """Report a line of the program, a provider or the engine."""
        event = DiagnosticEvent(severity, message, urn)
        with self._lock:
            if severity in ("warning", "error"):
                self.diagnostics.append(event)
            self._on_event(event)

    def interrupted(self, *, forced: bool) -> None:
        """Report that the run is interrupted."""
        with self._lock:
            self._on_event(InterruptEvent(forced))

    def violate(self, event: PolicyEvent) -> None:
        """Report a policy violation."""
        with self._lock:
            self.violations.append(event)
            self._on_event(event)

    def remediated(self, event: RemediationEvent) -> None:
        """Report that a policy has replaced the inputs of a resource."""
        with self._lock:
            self.remediations.append(event)
            self._on_event(event)

    @property
    def violated(self) -> bool:
        """Return whether a mandatory policy was violated."""
        with self._lock:
            return any(event.enforcement == "mandatory" for event in self.violations)

    def plan(self, state: ResourceState, op: Op, diff: ResourceDiff = NO_DIFF) -> None:
        """Record the resource after the run (or after the planned run)."""
        if is_default_provider(state.urn):
            return
        resource = PlannedResource(
            urn=state.urn,
            type=state.type,
            name=urn_name(state.urn),
            op=op,
            custom=state.custom,
            inputs=present(state.inputs, show_secrets=self._show_secrets),
            parent=state.parent,
            diff=diff.shown_keys(),
            replace_keys=diff.shown_replace_keys(),
        )
        with self._lock:
            self._planned[state.urn] = resource

    @property
    def planned(self) -> tuple[PlannedResource, ...]:
        """Return the resources, in the order in which they were settled."""
        return tuple(self._planned.values())

    @property
    def changes(self) -> Changes:
        """Return the counts; a replacement counts once."""
        return Changes(
            create=self._counts[Op.CREATE],
            update=self._counts[Op.UPDATE],
            replace=self._counts[Op.REPLACE],
            delete=self._counts[Op.DELETE],
            same=self._counts[Op.SAME],
        )
