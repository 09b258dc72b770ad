"""The command of a first job on a Slurm site, for a user of the fleet file."""

from __future__ import annotations

from msgspec import Struct

from gpufleet.plan.models import FleetPlan, OnPremSitePlan


class FirstJob(Struct, frozen=True):
    """A user, the host to log in to, and the command that shows the hosts of a job."""

    site: str
    host: str
    user: str
    command: str


def first_jobs(plan: FleetPlan) -> tuple[FirstJob, ...]:
    """Return a job for each Slurm site that has a user who may use whole GPUs of the default partition.

    The job takes up to two nodes with all their GPUs, or as many GPUs as the limit of the user's team allows.
    """
    return tuple(job for site in plan.onprem if (job := _first_job(site)) is not None)


def _first_job(site: OnPremSitePlan) -> FirstJob | None:
    slurm = site.rack.slurm
    if slurm is None or site.rack.mig:
        return None
    partition = next(item for item in slurm.partitions if item.default)
    allowed = partition.accounts or tuple(item.name for item in slurm.accounts)
    account = next(
        (item for item in slurm.accounts if item.users and item.gpus and item.name in allowed), None
    )
    host = next((item for role in ("login", "controller") for item in site.hosts if item.role == role), None)
    if account is None or host is None:
        return None
    gpus = min(site.gpus_per_node, account.gpus)
    nodes = min(2, len(partition.hosts), account.gpus // gpus)
    # Slurm takes the first team of a user by default.
    teams = [item.name for item in slurm.accounts if account.users[0] in item.users]
    words = [
        "srun",
        *([f"-A {account.name}"] if len(teams) > 1 else []),
        f"-N{nodes} --gres=gpu:{gpus} hostname",
    ]
    return FirstJob(site.site, host.name, account.users[0], " ".join(words))
