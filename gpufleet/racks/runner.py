"""Runs a playbook through ansible-runner: events as they come, secrets apart, the outcome by host.

Secrets reach Ansible as environment variables of its process (a playbook reads them with the `env`
look-up) or from a vault file whose password comes the same way. They are never arguments, and what
ansible-runner writes of the environment is removed as soon as the process runs.
"""

from __future__ import annotations

import os
import resource
import secrets
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.errors import CloudError, GpufleetError, InputError
from gpufleet.interruption import interruptible
from gpufleet.racks.events import HostStats, TaskEvent, host_stats, task_event
from gpufleet.racks.project import collections_folder
from gpufleet.racks.stragglers import end_marked, folder_prefix, mark_environment

OnTask = Callable[[TaskEvent], None]

_VAULT_VARIABLE = "GPUFLEET_VAULT_PASSWORD"
# Printed by the environment's owner only: Ansible runs this file and reads the password from it.
_VAULT_SCRIPT = f"""#!/bin/sh
printf '%s\\n' "${_VAULT_VARIABLE}"
"""
_KEPT_LINES = 40
# ansible-core 2.19 keeps one file open for each host whose facts it stores, beside its connections, and the
# usual limit of 1,024 ends a run over a thousand hosts.
_OPEN_FILES = 65_536
# How long ansible-runner reads before it looks whether the run was interrupted.
_CANCELLED_WITHIN_S = 0.25


@dataclass(frozen=True, slots=True)
class PlaybookRun:
    """What to run. `playbook` is relative to `project` (see `project.ansible_project`).

    `secrets` and `vault_password` are kept out of argv, logs and files. `variables` are extra
    variables and no secrets. `limit` is an Ansible host pattern. `tags` are roles; all if left out.
    `timeout_s` is for the whole run. `token` marks all processes of the run, see `stragglers`.
    """

    project: Path
    playbook: str
    inventory: Path
    limit: str = ""
    tags: tuple[str, ...] = ()
    check: bool = False
    diff: bool = False
    forks: int | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    vault_password: str = field(default="", repr=False)
    timeout_s: int | None = None
    token: str = ""


class CutShortError(CloudError):
    """Ansible ended early: some hosts are done and some are not."""


class PlaybookResult(Struct, frozen=True):
    """How a run ended, by host. `failures` are the tasks that failed and the hosts not reached."""

    hosts: Mapping[str, HostStats]
    failures: tuple[TaskEvent, ...]
    duration_s: float

    @property
    def failed_hosts(self) -> tuple[str, ...]:
        """Hosts on which a task failed, or that were not reached."""
        return tuple(name for name, stats in self.hosts.items() if stats.failed or stats.unreachable)

    @property
    def changed(self) -> int:
        """Tasks that changed something, over all hosts."""
        return sum(stats.changed for stats in self.hosts.values())


def run_playbook(run: PlaybookRun, on_task: OnTask | None = None) -> PlaybookResult:
    """Run a playbook to its end; `on_task` gets every task of every host as it happens.

    A host that fails is in the result and raises nothing. Raises InputError for an inventory, limit
    or playbook that Ansible cannot use, CloudError when time is up, KeyboardInterrupt when stopped
    by a signal (hosts keep what was done), CutShortError when Ansible was killed, and GpufleetError
    when Ansible itself breaks.
    """
    import ansible_runner

    _require(run)
    recorder = _Recorder(on_task)
    token = run.token or secrets.token_hex(16)
    started = time.monotonic()
    _allow_open_files(_OPEN_FILES)
    signals: list[int] = []
    with (
        tempfile.TemporaryDirectory(prefix=folder_prefix(token), ignore_cleanup_errors=True) as folder,
        interruptible(signals.append),
    ):
        private = Path(folder)
        try:
            outcome = ansible_runner.run(
                **_arguments(run, private, token),
                event_handler=recorder,
                status_handler=_forgetting(private),
                # Without one it would take over the signals itself.
                cancel_callback=lambda: bool(signals),
            )
            # Without an exit code it was ended by a signal, and its workers may still run.
            whole = outcome.status in ("successful", "failed") and outcome.rc is not None
        except BaseException:
            end_marked(token)
            if signals:
                # ansible-runner gives up where workers, which it does not end, keep the terminal open.
                raise KeyboardInterrupt from None
            raise
        if signals or not whole:
            end_marked(token)
    duration = time.monotonic() - started
    if signals:
        # Also where it had just come to its end: a further playbook may be waiting.
        raise KeyboardInterrupt
    if outcome.status == "timeout":
        raise CloudError(
            f"{run.playbook} did not end within {run.timeout_s} s",
            remedy="run again: hosts that are done have nothing left to change",
        )
    if outcome.rc is None:
        raise CutShortError(
            f"ansible-playbook {run.playbook} was killed in the middle of its work",
            remedy="run again: hosts that are done have nothing left to change",
        )
    if recorder.hosts is None or (outcome.rc != 0 and not recorder.anyone_failed):
        raise recorder.breakdown(run, outcome.rc)
    return PlaybookResult(recorder.hosts, tuple(recorder.failures), duration)


class _Recorder:
    """Takes ansible-runner's events; keeps failures, statistics and the last lines, drops the rest."""

    def __init__(self, on_task: OnTask | None) -> None:
        self._on_task = on_task
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.hosts: dict[str, HostStats] | None = None
        self.failures: list[TaskEvent] = []

    def __call__(self, raw: Mapping[str, Any]) -> bool:
        event = task_event(raw)
        if event is not None:
            if event.kind in ("failed", "unreachable"):
                self.failures.append(event)
            if self._on_task is not None:
                self._on_task(event)
        elif raw.get("event") in ("verbose", "error", "warning") and raw.get("stdout"):
            self._lines.append(str(raw["stdout"]))
        stats = host_stats(raw)
        if stats is not None:
            self.hosts = stats
        return False

    @property
    def anyone_failed(self) -> bool:
        return any(stats.failed or stats.unreachable for stats in (self.hosts or {}).values())

    def breakdown(self, run: PlaybookRun, code: int) -> GpufleetError:
        """The error for a run that ended before or beside its hosts."""
        text = " ".join(line for line in self._lines if line.strip())
        output = " ".join(text.split())[-600:] or "nothing"
        if "no hosts" in text or "Could not match" in text or "provided hosts list is empty" in text:
            return InputError(
                f"no host of {run.inventory} matches {run.limit or run.playbook!r}",
                remedy="`ansible-inventory --graph` shows the hosts and groups to choose from",
            )
        return GpufleetError(
            f"ansible-playbook {run.playbook} ended with code {code} before any host did: {output}",
            remedy="correct what it names; `ansible-playbook --syntax-check` says the same",
        )


def _require(run: PlaybookRun) -> None:
    for path, what in ((run.project / run.playbook, "playbook"), (run.inventory, "inventory")):
        if not path.is_file():
            raise InputError(f"there is no {what} {path}", remedy=f"name an existing {what}")


def _arguments(run: PlaybookRun, private: Path, token: str) -> dict[str, Any]:
    flags = [flag for flag, wanted in (("--check", run.check), ("--diff", run.diff)) if wanted]
    return {
        "private_data_dir": str(private),
        "project_dir": str(run.project.resolve()),
        "playbook": run.playbook,
        "inventory": str(run.inventory.resolve()),
        "limit": run.limit or None,
        "forks": run.forks,
        "extravars": dict(run.variables) or None,
        "cmdline": " ".join(flags) or None,
        "tags": ",".join(run.tags) or None,
        "envvars": _environment(run, private) | mark_environment(token),
        "timeout": run.timeout_s,
        "settings": {"pexpect_timeout": _CANCELLED_WITHIN_S, "suppress_output_file": True},
        "suppress_env_files": True,
        "quiet": True,
        # ansible.cfg names the fact cache; ansible-runner's own would be gone after each run.
        "fact_cache_type": "",
    }


def _environment(run: PlaybookRun, private: Path) -> dict[str, str]:
    here = str(Path(sys.executable).parent)
    values = {
        "PATH": os.pathsep.join((here, os.environ.get("PATH", os.defpath))),
        "ANSIBLE_CONFIG": str(run.project.resolve() / "ansible.cfg"),
        # The configuration finds them in a checkout only.
        "ANSIBLE_COLLECTIONS_PATH": str(collections_folder(run.project)),
        # Starts ansible-playbook faster; see the plugin there.
        "ANSIBLE_INVENTORY_PLUGINS": str(Path(__file__).parent / "configure" / "inventory"),
        "ANSIBLE_INVENTORY_ENABLED": "shared_yaml",
        # ansible-runner disables host key checking by default.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_LOCAL_TEMP": str(private / "tmp"),
        **run.environment,
        **run.secrets,
    }
    if run.vault_password:
        script = private / "vault-password"
        script.touch(mode=0o700)
        script.write_text(_VAULT_SCRIPT, encoding="utf-8")
        values |= {"ANSIBLE_VAULT_PASSWORD_FILE": str(script), _VAULT_VARIABLE: run.vault_password}
    return values


def _allow_open_files(wanted: int) -> None:
    """Raise the limit of open files of this process, which Ansible inherits, up to the system's limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def _forgetting(private: Path) -> Callable[..., None]:
    """A status handler that removes the file in which ansible-runner wrote the environment."""

    def forget(status: Mapping[str, Any], **_: Any) -> None:
        if status.get("status") == "running":
            for path in private.glob("artifacts/*/command"):
                path.unlink(missing_ok=True)

    return forget
