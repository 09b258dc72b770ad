"""Helpers for tests of operations: operations, jobs, and Slurm's records of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

from gpufleet.racks.stragglers import marked_processes
from tests.rack.site import Site

KEPT = "/var/backups/gpufleet/slurm"
STATE = "/var/lib/slurm/shared/slurmctld-lab/job_state"
FIELDS = "JobID,User,Account,QOS,State,Submit,Start,End,AllocTRES"


def operate(site: Site, operation: str, *words: str, code: int = 0) -> dict[str, Any]:
    """Run an operation to its end; its JSON."""
    return site.configure(operation, *words, verb="operate", code=code)


def failures(result: dict[str, Any]) -> str:
    """Reasons of failed hosts."""
    return " ".join(each["message"] for each in result["failures"])


def began(site: Site, host: str, task: str) -> bool:
    """Whether the current run has finished a task on a host."""
    entries = [json.loads(line) for line in site.journal().splitlines() if line.endswith("}")]
    return any(item["host"] == host and item["task"] == task for item in entries)


def wait_until(true: Callable[[], bool], run: subprocess.Popen[str], timeout_s: float = 300) -> None:
    """Wait for an event of a run; fails if the run ends before it."""
    end = time.monotonic() + timeout_s
    while not true():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def lose_power(site: Site, operation: str, run: subprocess.Popen[str]) -> None:
    """Kill all processes of a run on this machine, as after a power failure; hosts continue."""
    run.kill()
    (last,) = site.checkout.glob(f".gpufleet/operate/*/{operation}/last.json")
    token = json.loads(last.read_text())["token"]
    while left := marked_processes(token):
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue


def wait_on(site: Site, true: str, host: str = "ctl01", limit_s: int = 270) -> None:
    """Wait until a command succeeds on a host."""
    site.lab.sh(
        host, f"for try in $(seq {limit_s * 3}); do {true} >/dev/null 2>&1 && exit 0; sleep 0.3; done; exit 1"
    )


def complete_job(site: Site) -> int:
    """The number of an ended job that accounting has."""
    job = site.run_job("-A research --wrap true")
    wait_on(site, f"sacct -X -n -P -a -j {job} -o State | grep -q COMPLETED")
    # While its epilog runs the job has not ended: a slurmctld that starts with such a state ends it
    # again, and reports a job without nodes to accounting.
    wait_on(site, "! squeue -h -a -t CG | grep .")
    return job


def hold_job(site: Site) -> int:
    """The number of a held job that slurmctld has saved and accounting has."""
    site.lab.sh("ctl01", "touch /tmp/before")
    job = site.lab.sh("login01", "cd /tmp; su ada -c 'sbatch --parsable --hold -A research --wrap true'")
    wait_on(site, f"find {STATE} -newer /tmp/before | grep .")
    wait_on(site, f"sacct -X -n -P -a -j {int(job)} -o JobID | grep .")
    return int(job)


def records(site: Site) -> str:
    """All jobs in accounting, and the queue. By whom jobs were cancelled may be lost in a restore: see
    docs/guide/data.md."""
    return site.lab.sh(
        "ctl01",
        # sacct prints its header before it asks slurmdbd.
        "set -o pipefail; "
        f"sacct -X -P -a -S 1970-01-01 -o {FIELDS} | sed 's/CANCELLED by [0-9]*/CANCELLED/' | sort; "
        "squeue -h -a -o '%i %u %a %q %T %r %V'; "
        "sacctmgr -n -P show assoc format=Account,User,GrpTRES | sort",
    )


def why(result: dict[str, Any], host: str) -> str:
    """The last lines of output about a failed host."""
    return [item["message"] for item in result["failures"] if item["host"] == host][-1]
