"""Let waiting jobs of the racks use cloud nodes: read the queue, decide, and tell Slurm."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from cloud_nodes.aws import Ec2
from cloud_nodes.burst import Cloud, Decision, decide_burst, usd_of
from cloud_nodes.journal import log
from cloud_nodes.settings import Burst, Site
from cloud_nodes.slurm import Node, SlurmError
from cloud_nodes.waiting import MARK, Queue, QueuedJob

NOTES_OF_A_LOOK = 50
"""Jobs that stay and get a comment in one look: a long queue is explained in several."""

_NOT_FREE = frozenset({"down", "drain", "power_down", "powering_down", "planned", "reserved", "fail"})


def decisions(
    site: Site,
    burst: Burst,
    jobs: Sequence[QueuedJob],
    queue: Queue,
    ec2: Ec2,
    nodes: Mapping[str, Node],
    now: float,
) -> list[Decision]:
    """Return what the rules of a site say of each waiting job. Raises SlurmError and CloudErrors."""
    partitions = [group.partition for group in burst.groups]
    waiting = [job for job in jobs if not job.running]
    if not waiting:
        return []
    closed = ec2.stopped() | ec2.drained()
    names = {group.prefix.removesuffix("-"): group.name for group in site.groups}
    starts, ends = _month(now)
    prices = {group.partition: group for group in burst.groups}
    spent = sum(
        (
            usd_of(prices[each.partition], each.nodes, each.seconds + burst.idle_s)
            for each in queue.used(partitions, starts)
        ),
        Decimal(0),
    )
    cloud = Cloud(
        now=now,
        free={each: _free(nodes, f"{each}-") for each in partitions},
        stopped=[each for each in partitions if names.get(each) in closed],
        spent=spent,
        month_ends=ends,
    )
    return decide_burst(burst, waiting, [job for job in jobs if job.running], cloud)


def merged(decided: Iterable[Decision]) -> list[Decision]:
    """Return one decision for each job: that of the first site that allows it, or else of the first site."""
    found: dict[str, Decision] = {}
    for each in decided:
        if each.job.id not in found or (each.partition and not found[each.job.id].partition):
            found[each.job.id] = each
    return list(found.values())


def apply(queue: Queue, decided: list[Decision]) -> None:
    """Tell Slurm. A job that ended meanwhile, or that Slurm does not change, stops no other."""
    notes = 0
    for each in decided:
        job = each.job
        moves = set(each.partitions) != set(job.partitions)
        # Another rule is a change, and another amount is none: amounts differ at every look. A comment of an
        # administrator stays.
        says = (not job.note or job.note.startswith(MARK)) and not job.note.startswith(f"{MARK}{each.rule}: ")
        try:
            if moves:
                queue.move(job.id, each.partitions, each.text if says else None)
                log("moved", job=job.id, partitions=each.partitions, rule=each.rule, why=each.why)
            elif says and notes < NOTES_OF_A_LOOK and _is_told(each):
                notes += 1
                queue.note(job.id, each.text)
                log("stays", job=job.id, rule=each.rule, why=each.why)
        except SlurmError as error:
            log("failed", job=job.id, error=str(error)[:300])


def _is_told(decision: Decision) -> bool:
    """Return whether a job that stays gets a comment. That of a task would split its array in slurmctld."""
    return decision.rule not in ("wait", "residency", "reason") and "_" not in decision.job.id


def _free(nodes: Mapping[str, Node], prefix: str) -> int:
    return sum(
        "idle" in node.states and not node.states & _NOT_FREE
        for name, node in nodes.items()
        if name.startswith(prefix) and name[len(prefix) :].isdigit()
    )


def _month(now: float) -> tuple[float, float]:
    """Return when the month of `now` starts and ends, in UTC."""
    year, month, *_ = time.gmtime(now)
    first = (year, month, 1, 0, 0, 0)
    following = (year + month // 12, month % 12 + 1, 1, 0, 0, 0)
    return float(calendar.timegm(first)), float(calendar.timegm(following))
