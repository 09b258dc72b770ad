"""One run of an operation: its playbook on its targets, and everything kept on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from gpufleet.catalog import Catalog
from gpufleet.plan.models import FleetPlan
from gpufleet.racks.configure.attempt import Attempt, connection_environment
from gpufleet.racks.configure.preflight import preflight_hosts
from gpufleet.racks.configure.record import HostState, LastRun, RunFolder
from gpufleet.racks.configure.result import ConfigureResult, Failure, result_to_json
from gpufleet.racks.configure.transport import Transport
from gpufleet.racks.events import HostStats, TaskEvent, is_done
from gpufleet.racks.operations.operation import Operation, Value
from gpufleet.racks.preflight.run import PLAYBOOK as PREFLIGHT
from gpufleet.racks.preflight.verdict import PreflightVerdict
from gpufleet.racks.runner import CutShortError, OnTask, PlaybookRun, run_playbook


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """The request of an operation. `targets` are its target hosts, `helpers` other hosts that take part.

    `options` are all of the operation's, as they were read. `by` is who runs it, for reasons of drains and
    for records. `facts` is the folder with the facts of `gpufleet configure`: a controller has to know the
    hardware of nodes that this run does not visit. `secrets` are environment variables with their values.
    `first` is the run that this one resumes, the first of several.
    """

    operation: Operation
    plan: FleetPlan
    catalog: Catalog
    project: Path
    inventory: Path
    targets: tuple[str, ...]
    helpers: tuple[str, ...]
    options: Mapping[str, Value]
    by: str
    facts: Path
    known_hosts: tuple[Path, ...]
    ssh_config: Path | None = None
    check: bool = False
    diff: bool = False
    transport: Transport = "auto"
    forks: int | None = None
    secrets: Mapping[str, str] | None = None
    vault_password: str = field(default="", repr=False)
    first: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts of the playbook."""
        return (*self.targets, *self.helpers)

    @property
    def changes_hosts(self) -> bool:
        """Whether it needs consent."""
        return not self.check and not self.operation.reads


class OperationResult(Struct, frozen=True):
    """How an operation ended. `states` has every target: `done`, `failed`, `unreachable`, or `pending` for
    one that it has not come to or not got through with."""

    operation: str
    options: Mapping[str, Value]
    run: ConfigureResult
    states: Mapping[str, HostState]

    @property
    def left(self) -> tuple[str, ...]:
        """The targets that are not done."""
        return tuple(name for name, state in self.states.items() if state != "done")

    def to_json(self) -> dict[str, Any]:
        """The object of `gpufleet configure --json`, with `operation`, `options` and `states{}`."""
        document = {"operation": self.operation, "options": dict(self.options)}
        return document | result_to_json(self.run) | {"states": dict(self.states)}


def operate(
    request: OperationRequest,
    folder: RunFolder,
    on_task: OnTask,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> OperationResult:
    """Run the operation. The caller holds the lock of the environment. `on_stage` receives `preflight`, then
    the operation.

    A target that fails preflight is not touched and counts as failed. Raises what `run_playbook` raises for
    mistakes of the user, and KeyboardInterrupt; a run that is cut short is in the result.
    """
    attempt = Attempt.begin(folder, [*(request.secrets or {}).values(), request.vault_password], on_task)
    playbook = _playbook(request, attempt)
    remembered = LastRun(
        run=attempt.run,
        complete=False,
        hosts=dict.fromkeys(request.targets, "pending"),
        token=attempt.token,
        options=request.options,
        first=request.first or attempt.run,
    )
    if not request.check:
        folder.save(remembered)
    done: set[str] = set()

    def worked(event: TaskEvent) -> None:
        if is_done(event):
            done.add(event.host)
        attempt.collect(event)

    cut_short = ""
    verdicts: tuple[PreflightVerdict, ...] = ()
    hosts: dict[str, HostStats] = {}
    refused: list[Failure] = []
    try:
        if request.operation.preflight:
            on_stage("preflight")
            limited = replace(playbook, limit=",".join(request.targets))
            verdicts, hosts, refused = preflight_hosts(
                request.plan, request.catalog, request.targets, limited, attempt.record
            )
        visited = tuple(name for name in request.hosts if name not in hosts)
        targets = tuple(name for name in visited if name in request.targets)
        steps = [(request.operation.first, visited)] if request.operation.first else []
        steps.append((request.operation.playbook, targets if request.operation.first else visited))
        if targets:
            on_stage(request.operation.name)
        for name, limited_to in steps if targets else ():
            left = tuple(host for host in limited_to if host not in hosts)
            if not left:
                continue
            try:
                step = replace(playbook, limit=",".join(left), playbook=name)
                outcome = run_playbook(step, worked)
            except CutShortError as error:
                cut_short = error.message
                break
            wrong = {host: outcome.hosts[host] for host in left if host in outcome.failed_hosts}
            # A failed host is skipped. Without its helpers, the operation cannot continue.
            hosts |= wrong
            if wrong.keys() & set(request.helpers):
                break
        hosts |= {
            name: attempt.collector.counts.get(name, HostStats()) for name in visited if name not in hosts
        }
    finally:
        attempt.journal.close()
    ordered = {name: hosts[name] for name in request.hosts}
    states = _states(request, ordered, done, cut_short)
    if not request.check:
        folder.save(structs.replace(remembered, complete=not cut_short, hosts=states))
    run = attempt.result(
        request.plan.environment,
        ordered,
        check=request.check,
        refused=refused,
        verdicts=verdicts,
        cut_short=cut_short,
    )
    return OperationResult(request.operation.name, request.options, run, states)


def _states(
    request: OperationRequest, hosts: Mapping[str, HostStats], done: set[str], cut_short: str
) -> dict[str, HostState]:
    # What fails on a host that takes part is missing for all targets.
    broken = any(hosts[name].failed or hosts[name].unreachable for name in request.helpers)

    def state(name: str) -> HostState:
        if hosts[name].unreachable:
            return "unreachable"
        if hosts[name].failed:
            return "failed"
        if request.operation.marks:
            return "done" if name in done else "pending"
        return "pending" if cut_short or broken else "done"

    return {name: state(name) for name in request.targets}


def _playbook(request: OperationRequest, attempt: Attempt) -> PlaybookRun:
    return PlaybookRun(
        project=request.project,
        playbook=PREFLIGHT,
        inventory=request.inventory,
        check=request.check,
        diff=request.diff,
        forks=request.forks,
        variables={
            "operation": request.operation.name,
            "operation_by": request.by,
            "operation_targets": list(request.targets),
            # The same in all runs of one operation: what a killed run has done is known by it.
            "operation_id": request.first or attempt.run,
            "operation_resumed": bool(request.first),
            **{f"operation_{name}": value for name, value in request.options.items()},
            **(request.operation.variables(request.options) if request.operation.variables else {}),
        },
        environment=connection_environment(
            request.known_hosts, request.ssh_config, request.transport, request.facts
        ),
        secrets=dict(request.secrets or {}),
        vault_password=request.vault_password,
        token=attempt.token,
    )


def operation_to_json(operation: Operation) -> dict[str, Any]:
    """What `gpufleet operate --list --json` says of one."""
    return {
        "name": operation.name,
        "summary": operation.summary,
        "group": operation.group,
        "options": [
            {
                key: value
                for key, value in structs.asdict(option).items()
                if key in ("name", "kind", "help", "default")
            }
            | {"required": option.required, "choices": list(option.choices)}
            for option in operation.options
        ],
    }
