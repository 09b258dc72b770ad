"""One run: preflight, then everything on the hosts that passed, and all that is kept on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from gpufleet.catalog import Catalog
from gpufleet.plan.models import FleetPlan
from gpufleet.racks.configure.attempt import Attempt, connection_environment
from gpufleet.racks.configure.preflight import ROLE as PREFLIGHT_ROLE
from gpufleet.racks.configure.preflight import VARIABLE as EXPECTATIONS
from gpufleet.racks.configure.preflight import left_out, verdicts_of, without_preflight
from gpufleet.racks.configure.record import HostState, LastRun, RunFolder
from gpufleet.racks.configure.result import ConfigureResult, Failure
from gpufleet.racks.configure.transport import Transport
from gpufleet.racks.events import HostStats, TaskEvent
from gpufleet.racks.preflight.expectations import expectations_for, write_expectations
from gpufleet.racks.preflight.run import PLAYBOOK as PREFLIGHT
from gpufleet.racks.preflight.run import PreflightMeasurements
from gpufleet.racks.preflight.verdict import PreflightVerdict
from gpufleet.racks.runner import CutShortError, OnTask, PlaybookRun, run_playbook

SITE = "playbooks/site.yml"
MEASURED_SITE = "playbooks/measured_site.yml"
"""The same after preflight, with the hosts on which something can be installed. One run of Ansible for both:
a second one would start and connect to every host again."""


class ConfigureRequest(Struct, frozen=True):
    """The request of a run. `hosts` are the target hosts; `only` are roles, all if empty.

    `secrets` are environment variables with their values. `with_preflight` is False to skip preflight.
    """

    plan: FleetPlan
    catalog: Catalog
    project: Path
    inventory: Path
    hosts: tuple[str, ...]
    known_hosts: tuple[Path, ...]
    ssh_config: Path | None = None
    only: tuple[str, ...] = ()
    check: bool = False
    diff: bool = False
    with_preflight: bool = True
    transport: Transport = "auto"
    forks: int | None = None
    secrets: Mapping[str, str] | None = None
    vault_password: str = ""

    @property
    def measures_only(self) -> bool:
        """Whether only preflight runs."""
        return self.only == (PREFLIGHT_ROLE,)

    @property
    def changes_hosts(self) -> bool:
        """Whether the run changes hosts, and is remembered as the last one."""
        return not self.check and not self.measures_only


def configure(
    request: ConfigureRequest,
    folder: RunFolder,
    on_task: OnTask,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> ConfigureResult:
    """Run the request. The caller holds the lock of the folder. `on_stage` receives `preflight`, then `site`.

    A host on which nothing can be installed is not touched and counts as failed; so do hosts that fail
    later, and the others go on. If only preflight runs, every host that fails a check counts as failed.
    A run that is cut short is in the result, too, with what is known of it. Raises what `run_playbook`
    raises for mistakes of the user, and KeyboardInterrupt.
    """
    attempt = Attempt.begin(folder, [*(request.secrets or {}).values(), request.vault_password], on_task)
    playbook = _playbook(request, folder, attempt.token)
    if request.changes_hosts:
        pending: dict[str, HostState] = dict.fromkeys(request.hosts, "pending")
        folder.save(LastRun(attempt.run, False, pending, request.only, attempt.token))
    found = PreflightMeasurements()
    stages = [PREFLIGHT_ROLE] if request.with_preflight else []

    def on_event(event: TaskEvent) -> None:
        if event.role == PREFLIGHT_ROLE:
            found(event)
            attempt.record(event)
            return
        if "site" not in stages:
            stages.append("site")
            on_stage("site")
        attempt.collect(event)

    for stage in stages:
        on_stage(stage)
    ended: dict[str, HostStats] = {}
    cut_short = ""
    try:
        ended = dict(run_playbook(playbook, on_event).hosts)
    except CutShortError as error:
        cut_short = error.message
    finally:
        attempt.journal.close()
    verdicts: tuple[PreflightVerdict, ...] = ()
    hosts: dict[str, HostStats] = {}
    refused: list[Failure] = []
    if request.with_preflight:
        # After an early end, only hosts with results have a verdict.
        reachable = [
            name
            for name in request.hosts
            if not cut_short or name in found.measurements or name in found.ended
        ]
        verdicts = verdicts_of(request.plan, request.catalog, reachable, found)
        hosts, refused = left_out(verdicts, found, strict=request.measures_only)
    for name in request.hosts:
        if name in hosts:
            continue
        if cut_short:
            hosts[name] = attempt.collector.counts.get(name, HostStats())
        elif request.measures_only:
            hosts[name] = HostStats(ok=1)
        else:
            hosts[name] = without_preflight(ended.get(name, HostStats()), name, found.tasks)
    ordered = {name: hosts[name] for name in request.hosts}
    if request.changes_hosts:
        states = _states(ordered, cut_short)
        folder.save(LastRun(attempt.run, not cut_short, states, request.only, attempt.token))
    return attempt.result(
        request.plan.environment,
        ordered,
        check=request.check,
        refused=refused,
        verdicts=verdicts,
        cut_short=cut_short,
    )


def _playbook(request: ConfigureRequest, folder: RunFolder, token: str) -> PlaybookRun:
    variables: dict[str, str] = {}
    if request.measures_only:
        playbook = PREFLIGHT
    elif request.with_preflight:
        playbook = MEASURED_SITE
        expected = folder.path / "expectations.json"
        write_expectations(expectations_for(request.plan, request.catalog), expected)
        variables[EXPECTATIONS] = str(expected.resolve())
    else:
        playbook = SITE
    return PlaybookRun(
        project=request.project,
        playbook=playbook,
        variables=variables,
        inventory=request.inventory,
        limit=",".join(request.hosts),
        tags=tuple(role for role in request.only if role != PREFLIGHT_ROLE),
        check=request.check,
        diff=request.diff,
        forks=request.forks,
        environment=connection_environment(
            request.known_hosts, request.ssh_config, request.transport, folder.path / "facts"
        ),
        secrets=dict(request.secrets or {}),
        vault_password=request.vault_password,
        token=token,
    )


def _states(hosts: Mapping[str, HostStats], cut_short: str) -> dict[str, HostState]:
    def state(stats: HostStats) -> HostState:
        if stats.unreachable:
            return "unreachable"
        if stats.failed:
            return "failed"
        return "pending" if cut_short else "done"

    return {name: state(stats) for name, stats in hosts.items()}
