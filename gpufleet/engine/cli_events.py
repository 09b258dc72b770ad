"""Translates the Pulumi CLI's engine events into the events of `gpufleet.engine.api`."""

from __future__ import annotations

import re
import threading
import time
from typing import Any, Literal, cast

from pulumi.automation import events as cli

from gpufleet.engine.api import (
    SECRET,
    UNKNOWN,
    Changes,
    DiagnosticEvent,
    Event,
    InterruptEvent,
    OnEvent,
    Op,
    PlannedResource,
    PolicyEvent,
    ResourceEvent,
    Severity,
)
from gpufleet.engine.embedded.diffs import parse_path
from gpufleet.engine.embedded.provider_errors import clean_message
from gpufleet.engine.embedded.urns import is_default_provider, is_provider_type, urn_name
from gpufleet.engine.embedded.values import SECRET_SIG, SIG_KEY, UNKNOWN_WIRE

_COLOUR_TAG = re.compile(r"<\{%[^%]*%\}>")
_SEVERITIES: dict[str, Severity] = {
    "debug": "debug",
    "info": "info",
    "info#err": "info",
    "warning": "warning",
    "error": "error",
}
# Steps for which the CLI uses other names.
_OPS = {
    "read-replacement": Op.READ,
    "import": Op.READ,
    "import-replacement": Op.READ,
}
# Steps without effect in the cloud: the state drops a resource that was only read, or is already deleted.
_SILENT = frozenset({"discard", "discard-replaced", "remove-pending-replace"})


class EventTranslator:
    """Receives the CLI's events (from any thread), passes on ours, and keeps what a result needs.

    Messages that contain `hidden` are dropped: the CLI warns about each plugin on PATH, and a run adds its
    own on purpose.
    """

    def __init__(self, on_event: OnEvent, *, planning: bool, hidden: str) -> None:
        self._on_event = on_event
        self._planning = planning
        self._hidden = hidden
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}
        self._messages: dict[str, str] = {}
        self._planned: dict[str, PlannedResource] = {}
        self.changes = Changes()
        self.failures: list[ResourceEvent] = []
        self.diagnostics: list[DiagnosticEvent] = []
        self.violations: list[PolicyEvent] = []
        self.explained = False

    @property
    def resources(self) -> tuple[PlannedResource, ...]:
        """Return the resources of the run, in the order of their first step."""
        return tuple(self._planned.values())

    def take(self, event: cli.EngineEvent) -> None:
        """Translate one event."""
        with self._lock:
            if event.resource_pre_event is not None:
                self._begin(event.resource_pre_event.metadata)
            elif event.res_outputs_event is not None:
                self._end(event.res_outputs_event.metadata)
            elif event.res_op_failed_event is not None:
                self._fail(event.res_op_failed_event.metadata)
            elif event.diagnostic_event is not None:
                self._diagnose(event.diagnostic_event)
            elif event.policy_event is not None:
                self._report_policy(event.policy_event)
            elif event.summary_event is not None:
                self._summarize(event.summary_event)

    def interrupt(self, forced: bool) -> None:
        """Report that the run is interrupted."""
        with self._lock:
            self._send(InterruptEvent(forced))

    def _begin(self, step: cli.StepEventMetadata) -> None:
        if is_default_provider(step.urn) or str(step.op.value) in _SILENT:
            return
        self._plan(step)
        op = _op(step)
        state = step.new or step.old
        settled = self._planning or op in (Op.SAME, Op.REPLACE) or not (state and state.custom)
        if settled:
            self._send(_resource_event(step, "done"))
        else:
            self._started[step.urn] = time.monotonic()
            self._send(_resource_event(step, "started"))

    def _end(self, step: cli.StepEventMetadata) -> None:
        started = self._started.pop(step.urn, None)
        if started is not None:
            self._send(_resource_event(step, "done", elapsed_s=time.monotonic() - started))

    def _fail(self, step: cli.StepEventMetadata) -> None:
        started = self._started.pop(step.urn, time.monotonic())
        message = self._messages.get(step.urn, "failed: see the messages of the run")
        event = _resource_event(step, "failed", error=message, elapsed_s=time.monotonic() - started)
        self.failures.append(event)
        self._send(event)

    def _diagnose(self, event: cli.DiagnosticEvent) -> None:
        severity = _SEVERITIES.get(event.severity, "info")
        message = _COLOUR_TAG.sub("", event.message).strip()
        urn = event.urn or ""
        if not message or severity == "debug" or self._hidden in message:
            return
        if severity == "error" and urn:
            message = clean_message(message.removeprefix("error: "))
            self._messages[urn] = message
        diagnostic = DiagnosticEvent(severity, message, urn)
        if severity in ("warning", "error"):
            self.diagnostics.append(diagnostic)
        self.explained = self.explained or severity == "error"
        self._send(diagnostic)

    def _report_policy(self, event: cli.PolicyEvent) -> None:
        violation = PolicyEvent(
            pack=event.policy_pack_name,
            policy=event.policy_name,
            enforcement=cast(
                "Literal['advisory', 'mandatory', 'remediate', 'disabled']", event.enforcement_level
            ),
            message=_COLOUR_TAG.sub("", event.message).strip(),
            urn=event.resource_urn or "",
            version=event.policy_pack_version,
        )
        self.explained = self.explained or violation.enforcement == "mandatory"
        self.violations.append(violation)
        self._send(violation)

    def _summarize(self, event: cli.SummaryEvent) -> None:
        counts = {str(getattr(op, "value", op)): number for op, number in event.resource_changes.items()}
        self.changes = Changes(
            create=counts.get("create", 0),
            update=counts.get("update", 0),
            replace=counts.get("replace", 0),
            delete=counts.get("delete", 0),
            same=counts.get("same", 0),
        )

    def _plan(self, step: cli.StepEventMetadata) -> None:
        state = step.new or step.old
        op = _op(step)
        if state is None or op is Op.DELETE_REPLACED:
            return
        self._planned[step.urn] = PlannedResource(
            urn=step.urn,
            type=step.type,
            name=urn_name(step.urn),
            op=Op.REPLACE if op is Op.CREATE_REPLACEMENT else op,
            custom=bool(state.custom),
            inputs=_present(state.inputs or {}),
            parent=state.parent or "",
            diff=_changed(step),
            replace_keys=_replacing(step),
        )

    def _send(self, event: Event) -> None:
        self._on_event(event)


def _op(step: cli.StepEventMetadata) -> Op:
    name = str(step.op.value)
    if name == "refresh" and not (step.old and step.old.custom and not is_provider_type(step.type)):
        # Components and providers have nothing to read in the cloud.
        return Op.SAME
    return _OPS[name] if name in _OPS else Op(name)


def _resource_event(
    step: cli.StepEventMetadata,
    status: Literal["started", "done", "failed"],
    *,
    error: str = "",
    elapsed_s: float = 0.0,
) -> ResourceEvent:
    state = step.new or step.old
    return ResourceEvent(
        urn=step.urn,
        type=step.type,
        name=urn_name(step.urn),
        op=_op(step),
        status=status,
        parent=(state.parent or "") if state is not None else "",
        diff=_changed(step),
        replace_keys=_replacing(step),
        error=error,
        elapsed_s=elapsed_s,
    )


def _changed(step: cli.StepEventMetadata) -> tuple[str, ...]:
    paths = step.detailed_diff or {}
    if paths:
        return tuple(sorted({str(parse_path(path)[0]) for path in paths if path}))
    return tuple(sorted({*(step.diffs or ()), *(step.keys or ())}))


def _replacing(step: cli.StepEventMetadata) -> tuple[str, ...]:
    return tuple(sorted(step.keys or ()))


def _present(value: Any) -> Any:
    """Return values of an event as the API shows them; the CLI has already masked secrets."""
    if isinstance(value, dict):
        if value.get(SIG_KEY) == SECRET_SIG:
            return SECRET
        return {key: _present(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_present(item) for item in value]
    return UNKNOWN if value == UNKNOWN_WIRE else value
