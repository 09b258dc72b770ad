"""`python -m gpufleet.notices SETTINGS`: the handler as a service."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from pathlib import Path

from gpufleet.notices.audit import Audit
from gpufleet.notices.cloud import Cloud, CloudErrors
from gpufleet.notices.handler import NoticeWorker
from gpufleet.notices.intake import Intake
from gpufleet.notices.kubernetes import KubernetesScheduler
from gpufleet.notices.metrics import Metrics, serve_metrics
from gpufleet.notices.notes import Notes
from gpufleet.notices.scheduler import Scheduler, SchedulerError
from gpufleet.notices.settings import HandlerSettings, SettingsError, parse_settings, read_settings
from gpufleet.notices.slurm import Slurm

REMEMBER_S = 60.0
"""Between two lists of all instances of the site."""


def main(arguments: list[str]) -> int:
    """Run until SIGTERM. Exit codes: 0 stopped, 2 unusable settings."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m gpufleet.notices SETTINGS (a JSON file, or its content)\n")
        return 2
    try:
        settings = _settings(arguments[0])
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    settings.state.mkdir(mode=0o750, parents=True, exist_ok=True)
    lock = _wait_for_lock(settings.state / "lock", stop)
    if lock is not None:
        try:
            serve(settings, stop)
        finally:
            os.close(lock)
    return 0


def _settings(argument: str) -> HandlerSettings:
    if argument.startswith("{"):
        return parse_settings(argument, "the settings")
    return read_settings(Path(argument))


def _wait_for_lock(path: Path, stop: threading.Event) -> int | None:
    """Wait until no other handler works on these notes, as on a standby controller; None if stopped first."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    while not stop.is_set():
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stop.wait(1.0)
        else:
            return handle
    os.close(handle)
    return None


def serve(settings: HandlerSettings, stop: threading.Event) -> None:
    """Handle notices until `stop`."""
    notes = Notes(settings.state / "notes.sqlite")
    notes.forget(time.time())
    audit = Audit(settings.state / "audit.jsonl")
    metrics = Metrics(notes.counts)
    cloud = Cloud(settings)
    handler = NoticeWorker(settings, notes, cloud, scheduler_of(settings), audit, metrics)
    intake = Intake(settings, notes, cloud, audit, metrics, handler.wake)
    server = serve_metrics(metrics, settings.metrics_address, settings.metrics_port)
    # Before the first message: a storm that waits in the queue then needs no call for each instance.
    _remember(cloud, handler)
    audit.write("started", queue=settings.queue_url, metrics_port=server.server_port)
    threading.Thread(target=_keep_remembering, args=(cloud, handler, stop), daemon=True).start()
    try:
        _restore(handler, stop)
        intake.start(stop)
        handler.run(stop, intake.settle)
    finally:
        server.shutdown()
        audit.write("stopped")


def _keep_remembering(cloud: Cloud, handler: NoticeWorker, stop: threading.Event) -> None:
    while not stop.wait(REMEMBER_S):
        _remember(cloud, handler)


def _remember(cloud: Cloud, handler: NoticeWorker) -> None:
    """List the site's instances; without a list each is looked up when its notice comes."""
    try:
        cloud.remember()
    except CloudErrors as error:
        handler.metrics.count("_errors", "step", "instances")
        handler.audit.write("failed", step="instances", error=str(error)[:500])


def _restore(handler: NoticeWorker, stop: threading.Event) -> None:
    """Ask until the scheduler answers: it may start later than this."""
    while not stop.is_set():
        try:
            handler.restore()
        except SchedulerError as error:
            handler.audit.write("failed", step="restore", error=str(error)[:500])
            stop.wait(2.0)
        else:
            return


def scheduler_of(settings: HandlerSettings) -> Scheduler:
    """Return the scheduler that the settings name."""
    if settings.scheduler == "slurm":
        return Slurm(settings.acknowledgements, settings.signal_to)
    return KubernetesScheduler.in_cluster()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
