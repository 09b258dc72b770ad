"""What every run that is kept has, configure's and operations': a name, a mark, a journal, a result."""

from __future__ import annotations

import datetime as dt
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from gpufleet.racks.configure.record import Journal, RunFolder
from gpufleet.racks.configure.redact import Redactor
from gpufleet.racks.configure.result import Collector, ConfigureResult, Failure
from gpufleet.racks.configure.targets import ssh_arguments
from gpufleet.racks.configure.transport import Transport, transport_environment
from gpufleet.racks.events import HostStats, TaskEvent
from gpufleet.racks.preflight.verdict import PreflightVerdict
from gpufleet.racks.runner import OnTask
from gpufleet.racks.stragglers import clear_run


class Attempt(Struct, frozen=True):
    """One run, from its first task to its result. `token` marks its processes, see `stragglers`."""

    run: str
    token: str
    started: float
    folder: RunFolder
    collector: Collector
    journal: Journal
    on_task: OnTask

    @classmethod
    def begin(cls, folder: RunFolder, secret_values: Iterable[str], on_task: OnTask) -> Attempt:
        """Start a run with a new name, after ending the processes that the last run left.

        The caller holds the folder's lock: the last run's main process has ended, its children may still run.
        """
        last = folder.last()
        if last is not None and not last.complete and last.token:
            clear_run(last.token)
        run = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S") + f"-{secrets.token_hex(2)}"
        redactor = Redactor(list(secret_values))
        return cls(
            run=run,
            token=secrets.token_hex(16),
            started=time.monotonic(),
            folder=folder,
            collector=Collector(redactor),
            journal=folder.open_journal(run, redactor),
            on_task=on_task,
        )

    def record(self, event: TaskEvent) -> None:
        """Write a task to the journal and show it, without adding it to the result (preflight)."""
        self.journal.write(event)
        self.on_task(event)

    def collect(self, event: TaskEvent) -> None:
        """Record a task and add it to the result."""
        self.collector(event)
        self.record(event)

    def result(
        self,
        environment: str,
        hosts: Mapping[str, HostStats],
        *,
        check: bool,
        refused: Iterable[Failure],
        verdicts: tuple[PreflightVerdict, ...],
        cut_short: str,
    ) -> ConfigureResult:
        """How it ended; `refused` are hosts that preflight kept out of it."""
        return ConfigureResult(
            environment=environment,
            run=self.run,
            check=check,
            hosts=hosts,
            duration_s=time.monotonic() - self.started,
            changes=self.collector.changes,
            failures=(*refused, *self.collector.failures(hosts)),
            verdicts=verdicts,
            role_seconds=self.collector.role_seconds,
            cut_short=cut_short,
            notices=tuple(self.collector.notices),
            journal=self.folder.journal_file(self.run),
            page=self.folder.page_file(self.run),
        )


def connection_environment(
    known_hosts: tuple[Path, ...], ssh_config: Path | None, transport: Transport, facts: Path
) -> dict[str, str]:
    """Ansible's environment for the way to the hosts, and for the folder of facts.

    Facts of two environments must not mix: both may have a dgx001.
    """
    extra = os.environ.get("ANSIBLE_SSH_COMMON_ARGS", "")
    return {
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(facts),
        "ANSIBLE_SSH_COMMON_ARGS": f"{extra} {ssh_arguments(known_hosts, ssh_config)}".strip(),
        **transport_environment(transport),
    }
