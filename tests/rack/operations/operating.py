"""What tests of operations do with a site: operations, jobs, and what Slurm remembers of them."""

from __future__ import annotations

from typing import Any

from tests.rack.site import Site

KEPT = "/var/backups/gpufleet/slurm"
STATE = "/var/lib/slurm/shared/slurmctld-lab/job_state"
FIELDS = "JobID,User,Account,QOS,State,Submit,Start,End,AllocTRES"


def operate(site: Site, operation: str, *words: str, code: int = 0) -> dict[str, Any]:
    """Runs an operation to its end; what it says as JSON."""
    return site.configure(operation, *words, verb="operate", code=code)


def failures(result: dict[str, Any]) -> str:
    """Why hosts failed."""
    return " ".join(each["message"] for each in result["failures"])


def wait_on(site: Site, true: str, host: str = "ctl01", limit_s: int = 90) -> None:
    """Waits until a command succeeds on a host."""
    site.lab.sh(
        host, f"for try in $(seq {limit_s * 3}); do {true} >/dev/null 2>&1 && exit 0; sleep 0.3; done; exit 1"
    )


def complete_job(site: Site) -> int:
    """The number of a job that has ended, which accounting knows."""
    said = site.lab.sh(
        "login01", "cd /tmp; su ada -c 'timeout 60 sbatch --parsable --wait -A research --wrap true'"
    )
    wait_on(site, f"sacct -X -n -P -a -j {int(said)} -o State | grep -q COMPLETED")
    # While its epilog runs the job is not through: a slurmctld that starts with such a state ends it once
    # more, and tells accounting of a job that has no nodes any more.
    wait_on(site, "! squeue -h -a -t CG | grep .")
    return int(said)


def hold_job(site: Site) -> int:
    """The number of a job that waits until it is released, and that slurmctld has written down."""
    site.lab.sh("ctl01", "touch /tmp/before")
    job = site.lab.sh("login01", "cd /tmp; su ada -c 'sbatch --parsable --hold -A research --wrap true'")
    wait_on(site, f"find {STATE} -newer /tmp/before | grep .")
    return int(job)


def records(site: Site) -> str:
    """All jobs as accounting has them, and the queue."""
    return site.lab.sh(
        "ctl01",
        f"sacct -X -P -a -S 1970-01-01 -o {FIELDS} | sort; squeue -h -a -o '%i %u %a %q %T %r %V'; "
        "sacctmgr -n -P show assoc format=Account,User,GrpTRES | sort",
    )
