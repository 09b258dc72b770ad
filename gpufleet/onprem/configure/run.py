"""One run: preflight first, then the playbook on the hosts that passed, and everything kept on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gpufleet.catalog import Catalog
from gpufleet.onprem.configure.attempt import Attempt, connection_environment
from gpufleet.onprem.configure.record import HostState, LastRun, RunFolder
from gpufleet.onprem.configure.result import ConfigureResult, Failure
from gpufleet.onprem.configure.transport import Transport
from gpufleet.onprem.events import HostStats
from gpufleet.onprem.preflight.expectations import expectations_for
from gpufleet.onprem.preflight.judge import judge
from gpufleet.onprem.preflight.run import PLAYBOOK as PREFLIGHT
from gpufleet.onprem.preflight.run import measure
from gpufleet.onprem.preflight.verdict import Verdict, failed
from gpufleet.onprem.runner import CutShortError, OnTask, PlaybookRun, run_playbook
from gpufleet.plan.models import FleetPlan

SITE = "playbooks/site.yml"
PREFLIGHT_ROLE = "preflight"
_STOPPING = frozenset({"measured", "os", "disk"})
"""Checks without which nothing can be installed. A clock is set right by the role base, and a node with a
fault of its hardware is set up, shown, and drained by its health check."""


@dataclass(frozen=True, slots=True)
class ConfigureRequest:
    """What to run. `hosts` is who is visited; `only` are roles, all if empty.

    `secrets` are environment variables with their values. `judged` is False to leave preflight out.
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
    judged: bool = True
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
    """Run it; the caller holds the folder's lock. `on_stage` gets `preflight`, then `site`.

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
    try:
        verdicts: tuple[Verdict, ...] = ()
        hosts: dict[str, HostStats] = {}
        refused: list[Failure] = []
        if request.judged:
            on_stage("preflight")
            verdicts, hosts, refused = preflight_hosts(
                request.plan,
                request.catalog,
                request.hosts,
                playbook,
                attempt.told,
                strict=request.measures_only,
            )
        visited = tuple(name for name in request.hosts if name not in hosts)
        cut_short = ""
        if visited and not request.measures_only:
            on_stage("site")
            try:
                site = replace(playbook, limit=",".join(visited), playbook=SITE)
                outcome = run_playbook(site, attempt.worked)
                hosts |= {name: outcome.hosts.get(name, HostStats()) for name in visited}
            except CutShortError as error:
                cut_short = error.message
                hosts |= {name: attempt.collector.counts.get(name, HostStats()) for name in visited}
        elif visited:
            hosts |= dict.fromkeys(visited, HostStats(ok=1))
    finally:
        attempt.journal.close()
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
    return PlaybookRun(
        project=request.project,
        playbook=PREFLIGHT,
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


def preflight_hosts(
    plan: FleetPlan,
    catalog: Catalog,
    chosen: tuple[str, ...],
    playbook: PlaybookRun,
    on_task: OnTask,
    *,
    strict: bool = False,
) -> tuple[tuple[Verdict, ...], dict[str, HostStats], list[Failure]]:
    """Measures the chosen hosts: the verdicts, and the hosts that are not to be visited with why.

    Those are the ones on which nothing can be installed; with `strict` all that fail a check.
    """
    measured = measure(replace(playbook, tags=(), check=False, diff=False, variables={}), on_task)
    expected = expectations_for(plan, catalog)
    verdicts = judge(measured.measurements, {name: expected[name] for name in chosen})
    unreachable = {name for name, stats in measured.result.hosts.items() if stats.unreachable}
    messages = {event.host: event.message for event in measured.result.failures}
    hosts: dict[str, HostStats] = {}
    refused = []
    for verdict in failed(verdicts):
        if verdict.check not in _STOPPING and not strict:
            continue
        away = verdict.host in unreachable
        if away and verdict.host in hosts:
            continue
        hosts[verdict.host] = HostStats(unreachable=1) if away else HostStats(failed=1)
        message = messages.get(verdict.host, verdict.message) if away else verdict.message
        refused.append(
            Failure(
                verdict.host,
                "unreachable" if away else "failed",
                PREFLIGHT_ROLE,
                verdict.check,
                message,
            )
        )
    return verdicts, hosts, refused


def _states(hosts: Mapping[str, HostStats], cut_short: str) -> dict[str, HostState]:
    def state(stats: HostStats) -> HostState:
        if stats.unreachable:
            return "unreachable"
        if stats.failed:
            return "failed"
        return "pending" if cut_short else "done"

    return {name: state(stats) for name, stats in hosts.items()}
