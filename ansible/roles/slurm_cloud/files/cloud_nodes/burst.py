"""Which waiting jobs of the racks may run on cloud nodes too, and why. Pure.

A job that may gets the cloud partition beside its own: it runs where nodes are free first. Rules are asked in
order, and the first that refuses is the reason why a job stays. What a job costs is its upper end: whole
nodes, from their launch to the end of its time limit and until they are terminated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from cloud_nodes.settings import Burst, BurstGroup
from cloud_nodes.waiting import GOES, MARK, STARTS, STAYS, QueuedJob

_FOR_NODES = re.compile(r"(|None|Resources|Priority|ReqNodeNotAvail.*|Nodes required for job .*)")
"""Slurm's reasons of jobs that wait for nodes, and for nothing else (squeue, "JOB REASON CODES")."""


@dataclass(frozen=True)
class Cloud:
    """What the cloud has to offer at `now`: free nodes by partition, stopped partitions, and what was spent
    this month, in USD. The month ends at `month_ends`."""

    now: float
    free: Mapping[str, int]
    stopped: Collection[str]
    spent: Decimal
    month_ends: float


@dataclass(frozen=True)
class Decision:
    """What happens to a job: it gets the partition, keeps it, or stays on the racks without one."""

    job: QueuedJob
    partition: str
    rule: str
    why: str

    @property
    def text(self) -> str:
        """The decision as the job's administrator comment."""
        return f"{MARK}{self.rule}: {self.why}"

    @property
    def partitions(self) -> tuple[str, ...]:
        """The job's partitions from now on."""
        own = tuple(each for each in self.job.partitions if each not in self.job.added)
        return (*own, self.partition) if self.partition else own


@dataclass
class _Left:
    """What is left while jobs are decided in the order of their priority."""

    usd: Decimal
    nodes: dict[str, int] = field(default_factory=dict)

    def take(self, partition: str, nodes: int, usd: Decimal) -> None:
        self.usd -= usd
        self.nodes[partition] = self.nodes.get(partition, 0) - nodes


def decide_burst(
    burst: Burst, waiting: Sequence[QueuedJob], running: Iterable[QueuedJob], cloud: Cloud
) -> list[Decision]:
    """Return the decision for each waiting job of the racks, in their order, which is that of priority.

    `running` are the jobs on cloud nodes.
    """
    left = _Left(burst.monthly_usd - cloud.spent, dict(cloud.free))
    for job in running:
        for group in burst.groups:
            if group.partition in job.partitions:
                left.take(group.partition, 0, _remaining_usd(burst, group, job, cloud))
    found: dict[str, Decision] = {}
    # Jobs that were allowed before count before new ones, whatever their priority.
    for job in sorted(waiting, key=lambda each: not _is_moved(burst, each)):
        decision = _decide(burst, job, cloud, left)
        if decision is not None:
            found[job.id] = decision
    return [found[job.id] for job in waiting if job.id in found]


def _is_moved(burst: Burst, job: QueuedJob) -> bool:
    return any(group.partition in job.partitions for group in burst.groups)


def _decide(burst: Burst, job: QueuedJob, cloud: Cloud, left: _Left) -> Decision | None:
    """Return the decision for a job; None for one that is not ours to decide."""
    if _is_moved(burst, job) and not job.added:
        # Whoever sent it there pays for it from the same amount.
        for group in burst.groups:
            if group.partition in job.partitions:
                left.take(group.partition, job.nodes, _whole_usd(burst, group, job, cloud))
        return None
    if (job.added and not _is_moved(burst, job)) or not set(job.partitions) & set(burst.partitions):
        # Another site has allowed it, or it is no job of the racks.
        return None
    refusal = _refusal(burst, job, cloud.now)
    if refusal is not None:
        return Decision(job, "", *refusal)
    groups = [group for group in burst.groups if not _misfit(group, job)]
    open_ones = [group for group in groups if group.partition not in cloud.stopped]
    if not open_ones:
        return Decision(job, "", "stopped", "the budget is spent: `gpufleet budget resume`")
    free = [
        group
        for group in open_ones
        if group.partition in job.added or left.nodes.get(group.partition, 0) >= job.nodes
    ]
    if not free:
        return Decision(job, "", "free", f"needs {job.nodes} free nodes, and {_free(open_ones, left)}")
    group = min(free, key=lambda each: (each.partition not in job.partitions, each.usd_per_hour))
    usd, left_usd = _whole_usd(burst, group, job, cloud), max(left.usd, Decimal(0))
    if usd > left_usd:
        why = f"costs up to {usd:.2f} USD, and {left_usd:.2f} of {burst.monthly_usd:.2f} are left this month"
        return Decision(job, "", "budget", why)
    left.take(group.partition, job.nodes, usd)
    why = _why_due(burst, job, cloud.now)
    why = f"{why}; {group.partition} costs up to {usd:.2f} of {left_usd:.2f} USD left this month"
    return Decision(job, group.partition, GOES, why)


def _refusal(burst: Burst, job: QueuedJob, now: float) -> tuple[str, str] | None:
    """Return the first rule that keeps a job on the racks whatever the cloud has, and why; or None."""
    if job.account not in burst.accounts:
        return "residency", f"jobs of account {job.account or '(none)'} do not leave the racks"
    if job.comment.startswith(STAYS):
        return "residency", f"its comment starts with {STAYS}"
    # A job that was queued again waits for two minutes at least.
    if not (_FOR_NODES.fullmatch(job.reason) or (job.added and job.reason == "BeginTime")):
        return "reason", f"waits for another reason than nodes: {job.reason}"
    if job.bound_by:
        return "bound", f"is bound to nodes of the racks by {job.bound_by}"
    if job.limit_s is None:
        return "limit", "has no time limit, so that its cost has no upper end"
    misfits = [_misfit(group, job) for group in burst.groups]
    if all(misfits):
        return "nodes", "; ".join(misfits)
    return None if job.added else _not_due(burst, job, job.limit_s, now)


def _not_due(burst: Burst, job: QueuedJob, limit_s: float, now: float) -> tuple[str, str] | None:
    """Return why it is too early, or too late, for a job; None if it may go."""
    if job.deadline is not None:
        if now + burst.boot_s + limit_s > job.deadline:
            return "deadline", "ends after its deadline in the cloud too"
        if job.expected is not None and job.expected + limit_s <= job.deadline:
            return "deadline", "Slurm expects it to end before its deadline on the racks"
        if _is_pressed(burst, job, limit_s, now):
            return None
    if now - job.eligible < burst.after_s:
        return "wait", f"waits for less than {_minutes(burst.after_s)}"
    if job.expected is not None and job.expected - now <= burst.boot_s:
        return "wait", f"Slurm expects it to start within {_minutes(burst.boot_s)}, before a cloud node is up"
    return None


def _is_pressed(burst: Burst, job: QueuedJob, limit_s: float, now: float) -> bool:
    """Return whether a job misses its deadline on the racks; where Slurm does not know, soon in the cloud."""
    if job.deadline is None:
        return False
    start = now + 2 * burst.boot_s if job.expected is None else job.expected
    return start + limit_s > job.deadline


def _why_due(burst: Burst, job: QueuedJob, now: float) -> str:
    if job.added:
        return "was allowed before"
    if job.limit_s is not None and _is_pressed(burst, job, job.limit_s, now):
        return "ends after its deadline on the racks"
    return f"waited {_minutes(now - job.eligible)}"


def _misfit(group: BurstGroup, job: QueuedJob) -> str:
    """Return why the job does not fit on nodes of the group; empty if it does."""
    if job.nodes > group.nodes:
        return f"{group.partition} has {group.nodes} nodes, and it needs {job.nodes}"
    if job.gpu_types - {group.gpu_type}:
        return f"{group.partition} has no {', '.join(sorted(job.gpu_types - {group.gpu_type}))}"
    for what, wanted, there in (
        ("GPUs", job.gpus, group.gpus),
        ("CPUs", job.cpus, group.cpus),
        ("MiB of memory", job.memory_mib, group.memory_mib),
    ):
        each = -(-wanted // max(1, job.nodes))
        if each > there:
            return f"{what} a node: {group.partition} has {there}, and it needs {each}"
    return ""


def _whole_usd(burst: Burst, group: BurstGroup, job: QueuedJob, cloud: Cloud) -> Decimal:
    """Return the upper end of what a waiting job costs; without a time limit, until the month ends."""
    runs = cloud.month_ends - cloud.now if job.limit_s is None else job.limit_s
    return usd_of(group, job.nodes, burst.boot_s + runs + burst.idle_s)


def _remaining_usd(burst: Burst, group: BurstGroup, job: QueuedJob, cloud: Cloud) -> Decimal:
    """Return the upper end of what a running job still costs; without a time limit, until the month ends."""
    ends = cloud.month_ends if job.ends is None else job.ends
    # Slurm counts the time limit from when the nodes are up.
    starts = burst.boot_s if job.state == STARTS else 0
    return usd_of(group, job.nodes, starts + max(0.0, ends - cloud.now) + burst.idle_s)


def usd_of(group: BurstGroup, nodes: int, seconds: float) -> Decimal:
    """Return what nodes cost for that long, in USD, rounded up to cents."""
    return Decimal(math.ceil(group.usd_per_hour * nodes * math.ceil(seconds) / 36)) / 100


def _free(groups: Iterable[BurstGroup], left: _Left) -> str:
    return ", ".join(f"{each.partition} has {max(0, left.nodes.get(each.partition, 0))}" for each in groups)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min"
