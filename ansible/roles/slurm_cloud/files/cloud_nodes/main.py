"""`cloud-nodes run` (the service), `resume` and `suspend`, which Slurm calls, and `explain` for people."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from cloud_nodes.journal import log
from cloud_nodes.passes import Passes, locked
from cloud_nodes.settings import Settings, read_settings
from cloud_nodes.slurm import Slurm, SlurmError

SETTINGS = Path("/etc/gpufleet/cloud-nodes.json")
CREDENTIALS = "/etc/gpufleet/aws.conf"
LOCK = Path("/run/gpufleet-cloud-nodes/lock")
INTERVAL_S = 10.0
KEY = "munge-key"
"""The credential by which systemd gives the munge key to the service (LoadCredential)."""


def main(arguments: Sequence[str]) -> int:
    """Exit codes: 0 done, 1 something is left to the next pass, 2 unusable settings."""
    parser = argparse.ArgumentParser(prog="cloud-nodes")
    parser.add_argument("--settings", type=Path, default=SETTINGS)
    parser.add_argument("--lock", type=Path, default=LOCK)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="make passes until SIGTERM, while this host's controller decides")
    commands.add_parser(
        "explain", help="say which waiting jobs may use cloud nodes, and why; changes nothing"
    )
    for name in ("resume", "suspend"):
        commands.add_parser(name, help=f"make one pass; Slurm {name}s these nodes").add_argument("nodes")
    options = parser.parse_args(arguments)
    started = time.time()
    os.environ.setdefault("AWS_CONFIG_FILE", CREDENTIALS)
    try:
        settings = read_settings(options.settings)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"{options.settings}: {error}: run `gpufleet configure` again\n")
        return 2
    slurm = Slurm()
    if options.command == "run":
        return serve(settings, slurm, options.lock)
    if options.command == "explain":
        return explain(Passes(settings, slurm))
    try:
        with locked(options.lock):
            resumed = slurm.expand(options.nodes) if options.command == "resume" else []
            return 0 if Passes(settings, slurm).run(resumed, started) else 1
    except (SlurmError, OSError) as error:
        log("failed", error=str(error)[:300])
        return 1


def serve(settings: Settings, slurm: Slurm, lock: Path) -> int:
    """Make passes while the controller of this host decides."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    host = socket.gethostname().partition(".")[0]
    passes = Passes(settings, slurm, munge_key=_munge_key(), lasting=True)
    while not stop.is_set():
        try:
            if slurm.acts_here(host):
                with locked(lock):
                    passes.run()
                    passes.burst()
            else:
                passes.forget()
        except (SlurmError, OSError) as error:
            log("failed", error=str(error)[:300])
        stop.wait(INTERVAL_S)
    return 0


def explain(passes: Passes) -> int:
    """Print the decision about each waiting job."""
    try:
        for each in passes.decisions():
            sys.stdout.write(f"{each.job.id:12} {each.partition or 'stays':24} {each.rule}: {each.why}\n")
    except SlurmError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _munge_key() -> str:
    """Return the munge key as nodes need it; empty if the service has none."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    return Path(folder, KEY).read_text(encoding="ascii") if folder else ""
