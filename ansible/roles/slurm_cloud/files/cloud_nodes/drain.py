"""Drain spot nodes of groups that a breach of the budget drains, one step in each pass.

A node takes no more jobs, its jobs are asked for a checkpoint and queued again when they have answered or
their time is up, and then it is powered down. How far it is, Slurm keeps in its reason: so a program that is
killed goes on where it was. Nodes that others drained are left to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from cloud_nodes.decide import CLOCKS_S, Instance
from cloud_nodes.journal import log
from cloud_nodes.settings import Site
from cloud_nodes.slurm import Job, Node, Slurm, SlurmError

DRAINS = "gpufleet budget: spot drains"
"""How the reason of such a node starts. Without a time its jobs are not signalled yet."""

COMPLETING_S = 60.0
"""For this long after its time a job that is queued again may clean up, or one that cannot be may go on."""

_UNTIL = re.compile(r"checkpoint until (\d{10,})")
_LEAVING = frozenset({"down", "power_down", "powering_down", "powered_down"})


def drain_spot(
    site: Site,
    slurm: Slurm,
    drained: Collection[str],
    nodes: Mapping[str, Node],
    instances: Collection[Instance],
    now: float,
) -> None:
    """Take the next step with the site's nodes; `drained` are the groups. Raises SlurmError."""
    spot = {each.node for each in instances if each.spot}
    groups = {name: group.name for name in nodes if (group := site.group_of(name)) is not None}
    ours = {name for name in groups if _is_ours(nodes[name])}
    back = [name for name in ours if groups[name] not in drained]
    if back:
        slurm.resume(back)
        log("resumed", nodes=sorted(back))
    running = [
        name
        for name, group in groups.items()
        if group in drained and name in spot and not nodes[name].states & _LEAVING
    ]
    _signal(site, slurm, [name for name in running if _is_fresh(nodes[name])], now)
    _collect(site, slurm, {name: until for name in running if (until := _until(nodes[name]))}, now)


def _is_ours(node: Node) -> bool:
    return "drain" in node.states and node.reason.startswith(DRAINS)


def _until(node: Node) -> float:
    found = _UNTIL.search(node.reason) if _is_ours(node) else None
    return float(found[1]) if found else 0.0


def _is_fresh(node: Node) -> bool:
    """Return whether a node is in service, or was drained by a pass that did not come further."""
    return "drain" not in node.states or (_is_ours(node) and not _until(node))


def _signal(site: Site, slurm: Slurm, fresh: Collection[str], now: float) -> None:
    """Drain nodes, ask their jobs for a checkpoint, and write until when."""
    if not fresh:
        return
    slurm.drain(fresh, DRAINS)
    for job in slurm.jobs(fresh):
        if job.state != "CG":
            _each(slurm.signal, "signalled", job)
    slurm.drain(fresh, f"{DRAINS}, checkpoint until {now + site.checkpoint_s:.0f}")
    log("drained", nodes=sorted(fresh))


def _collect(site: Site, slurm: Slurm, until: Mapping[str, float], now: float) -> None:
    """Queue jobs again that have answered or whose time is up, and power down nodes without jobs."""
    if not until:
        return
    busy: set[str] = set()
    for job in slurm.jobs(until):
        held = [until[name] for name in job.nodes if name in until]
        busy.update(job.nodes)
        signalled = max(held) - site.checkpoint_s
        if job.state != "CG" and (now >= max(held) or job.answered >= signalled - CLOCKS_S):
            _each(slurm.requeue, "queued again", job)
    done = [name for name, end in until.items() if name not in busy or now >= end + COMPLETING_S]
    if done:
        slurm.power_down(done)
        log("powered down", nodes=sorted(done), reason=DRAINS)


def _each(act: Callable[[str], None], what: str, job: Job) -> None:
    """Act on a job. One that has ended meanwhile, or cannot be queued again, stops no other."""
    try:
        act(job.id)
    except SlurmError as error:
        log("failed", job=job.id, error=str(error)[:300])
    else:
        log(what, job=job.id, nodes=sorted(job.nodes))
