"""What a pass does: from the states of nodes and the instances that exist. Pure.

A node has at most one instance. Nodes that Slurm powers up get one, nodes that it powered down have none, and
a node whose instance is gone is powered down. A node that could not start is down with a reason that says
when it is tried again; Slurm keeps that time for us.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cloud_nodes.settings import Group, Settings
from cloud_nodes.slurm import Node

REASON = "gpufleet cloud: "
"""How reasons of this program start. Nodes that others set down stay down while they have an instance."""

FREE = f"{REASON}powered down"
"""The reason of a node that was freed. Slurm 22.05 removes it at once (clusteracct_storage_g_node_up)."""

NOT_REGISTERED = "ResumeTimeout reached"
"""Slurm's own reason for a node that does not register in time. Slurm 22.05 writes it in place of an older
reason; from 23.02 on it follows that, after a colon (slurmctld/node_mgr.c, set_node_reason)."""

UNCLAIMED_S = 30.0
"""A node that powers up and has had no instance for this long gets one, although its ResumeProgram was killed
or lost its answer. EC2 lists new instances after some seconds."""

MISSING_S = 30.0
"""An instance that has not been listed for this long is gone."""

ORPHAN_S = 120.0
"""An instance of ours that belongs to no node for this long is terminated: naming it takes seconds."""

CLOCKS_S = 5.0
"""How much the clocks of controller and EC2 may differ."""

_CHANGING = frozenset({"down", "drain", "fail", "power_down", "power_up", "powering_down", "powering_up"})

_UNTIL = re.compile(r"again after (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Instance:
    """An instance that is not shutting down. `node` is the name on its tag, `launched` in epoch seconds."""

    id: str
    site: str
    node: str
    address: str
    launched: float
    spot: bool = False


@dataclass(frozen=True)
class Launch:
    """Nodes of a group that are launched together: all of them or none, if a job waits for them."""

    group: Group
    nodes: Sequence[str]
    all_or_nothing: bool


@dataclass
class Actions:
    """What to do, in this order."""

    terminate: dict[str, str] = field(default_factory=dict)
    """Instance -> reason."""
    down: dict[str, str] = field(default_factory=dict)
    """Node -> reason."""
    power_down: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    launch: list[Launch] = field(default_factory=list)


@dataclass
class Memory:
    """What a program knows from its passes. Forgotten at a restart, which only delays or repeats."""

    without: dict[str, float] = field(default_factory=dict)
    """Since when nodes have had no instance, in epoch seconds."""
    usable: set[str] = field(default_factory=set)
    """Nodes that were reported to Slurm as free, and that were not down since."""


def decide(
    settings: Settings,
    nodes: Mapping[str, Node],
    instances: Iterable[Instance],
    waiting: Sequence[Collection[str]],
    memory: Memory,
    now: float,
    resumed: Collection[str] = (),
    since: float = 0.0,
) -> Actions:
    """Return what to do at `now`.

    `waiting` are the nodes of each waiting job, `resumed` those that Slurm asks for since that time: what ran
    before under their names is of their last life.
    """
    actions = Actions()
    of_node: dict[str, list[Instance]] = {}
    for each in instances:
        if each.node in nodes and settings.site_of(each.node) is not None:
            of_node.setdefault(each.node, []).append(each)
        elif now - each.launched > ORPHAN_S:
            actions.terminate[each.id] = "belongs to no node"
    wanted = []
    for name, node in nodes.items():
        if settings.site_of(name) is None:
            continue
        mine = of_node.get(name, [])
        if name in resumed:
            old = [each for each in mine if each.launched < since - CLOCKS_S]
            _terminate(actions, old, "its node starts again")
            mine = [each for each in mine if each not in old]
        if _must_be_freed(node, name in memory.usable):
            actions.free.append(name)
        without_s = _without(memory, name, mine, now)
        if _decide(settings, node, mine, without_s, actions, now, asked=name in resumed):
            wanted.append(name)
    actions.launch = _launches(settings, wanted, waiting)
    return actions


def failure(code: str, settings: Settings, now: float) -> str:
    """Return the reason of a node that could not start, with the time when it is tried again."""
    until = time.strftime(_TIME, time.gmtime(now + settings.retry_s))
    return f"{REASON}{code}, again after {until}"


def blocked(launch: Launch, nodes: Mapping[str, Node]) -> list[str]:
    """Return further nodes of the group that wait as well: Slurm would try the next nodes at once.

    So many stay usable that they are fewer than this launch wanted.
    """
    free = sorted(
        name
        for name, node in nodes.items()
        if name not in launch.nodes
        and launch.group.prefix == name.rstrip("0123456789")
        and {"idle", "powered_down"} <= node.states
    )
    return free[len(launch.nodes) - 1 :] if launch.all_or_nothing else free


def _without(memory: Memory, name: str, mine: Sequence[Instance], now: float) -> float:
    """Return for how long the node has had no instance."""
    if mine:
        memory.without.pop(name, None)
        return 0.0
    return now - memory.without.setdefault(name, now)


def _decide(
    settings: Settings,
    node: Node,
    mine: list[Instance],
    without_s: float,
    actions: Actions,
    now: float,
    *,
    asked: bool,
) -> bool:
    """Add what one node needs; return whether it needs an instance."""
    states = node.states
    if "down" in states and NOT_REGISTERED in node.reason:
        # Slurm counts the node as powered down then, without a call of SuspendProgram.
        _terminate(actions, mine, "its node did not register in time")
        actions.down[node.name] = failure("did not register in time", settings, now)
        return False
    if {"powering_down", "powered_down", "power_down"} & states:
        _terminate(actions, mine, "its node is powered down")
        if "powered_down" in states and "down" in states and _is_over(node.reason, now):
            actions.power_down.append(node.name)
        return False
    if "down" in states:
        _decide_down(node, mine, without_s, actions, now)
        return False
    if not mine and (asked or "powering_up" in states):
        return asked or without_s >= UNCLAIMED_S
    if not mine:
        if without_s >= MISSING_S:
            actions.down[node.name] = f"{REASON}its instance is gone"
            actions.power_down.append(node.name)
        return False
    _keep_one(node, mine, actions)
    return False


def _must_be_freed(node: Node, known: bool) -> bool:
    """Return whether a node must be reported to Slurm as free; `known`: it was since it was last down.

    Slurm leaves a node that was down out of its bitmap of nodes that are up, also while it is idle since,
    until it registers. Its main scheduler does not read that, but its backfill scheduler does, which is alone
    after a failover before Slurm 23.02.4 ("Fix main scheduler loop not starting after failover to backup
    controller"): jobs would wait forever. The reason shows it, but a node that registers after its
    ResumeTimeout loses its reason.
    """
    at_rest = {"idle", "powered_down"} <= node.states and not node.states & _CHANGING
    was_down = node.reason.startswith("gpufleet ") and node.reason != FREE
    return at_rest and (was_down or not known)


def _decide_down(node: Node, mine: list[Instance], without_s: float, actions: Actions, now: float) -> None:
    if node.reason.startswith(REASON):
        _terminate(actions, mine, "its node did not start")
        if _is_over(node.reason, now):
            actions.power_down.append(node.name)
    elif not mine and without_s >= MISSING_S:
        actions.power_down.append(node.name)


def _keep_one(node: Node, mine: list[Instance], actions: Actions) -> None:
    kept = max(mine, key=lambda each: (each.address == node.address, each.launched))
    _terminate(actions, [each for each in mine if each is not kept], "its node has another instance")
    if kept.address and kept.address != node.address:
        actions.addresses[node.name] = kept.address


def _terminate(actions: Actions, instances: Iterable[Instance], reason: str) -> None:
    actions.terminate.update({each.id: reason for each in instances})


def _is_over(reason: str, now: float) -> bool:
    """Return whether the wait that a reason of ours names has ended; of others, never."""
    if not reason.startswith(REASON):
        return False
    found = _UNTIL.search(reason)
    return found is None or time.strftime(_TIME, time.gmtime(now)) >= found[1]


def _launches(
    settings: Settings, wanted: Collection[str], waiting: Sequence[Collection[str]]
) -> list[Launch]:
    """Return one launch for each waiting job and group, and one for the other nodes of each group."""
    launches = []
    left = set(wanted)
    for job in waiting:
        for group, names in _by_group(settings, left & set(job)).items():
            launches.append(Launch(group, names, len(names) > 1))
        left -= set(job)
    launches += [Launch(group, names, False) for group, names in _by_group(settings, left).items()]
    return launches


def _by_group(settings: Settings, names: Collection[str]) -> dict[Group, list[str]]:
    found: dict[Group, list[str]] = {}
    for name in sorted(names):
        site = settings.site_of(name)
        group = site.group_of(name) if site else None
        if group is not None:
            found.setdefault(group, []).append(name)
    return found
