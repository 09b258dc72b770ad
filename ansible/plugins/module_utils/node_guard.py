"""Guard of changes that stop work: the node is drained first, and nothing changes while work runs.

Roles call it before the driver, RDMA libraries, MIG instances or container runtimes change and before
reboots. The drain reason in the scheduler is the only state: a later run, also by another user, continues.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ansible_collections.gpufleet.rack.plugins.module_utils import workloads
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes_pods import (
    evict,
    holding,
    movable,
    running,
    uids_of_node,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.kubernetes_service import KubernetesService
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import difference
from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError
from ansible_collections.gpufleet.rack.plugins.module_utils.service import Node
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_node import SlurmError, SlurmNode
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_service import SlurmService, describe

OPERATION = "configure"
KUBELET = Path("/etc/kubernetes/kubelet.conf")
SHOWN = 5
POLL_S = 2
# Longer than the usual grace period of a pod, 30 s.
EVICTION_S = 300
Stops = Literal["gpus", "containers", "pods", "host"]
"""What a change stops: use of GPUs and RDMA adapters, Docker containers, pods, or everything on the host."""
EVICTS = ("pods", "host")


@dataclass
class GuardResult:
    """Schedulers in which the guard drained the node (in check mode: would drain it)."""

    drained: bool = False
    diff: list[dict[str, str]] = field(default_factory=list)


def node_name() -> str:
    """The name of this host in its scheduler."""
    return socket.gethostname().split(".")[0]


def services(name: str) -> list[Node]:
    """The node in each scheduler that has it. Raises if a running scheduler does not answer."""
    given: dict[str, Any] = {
        "node": name,
        "state": "drained",
        "operation": OPERATION,
        "by": os.environ.get("SUDO_USER", "root"),
        "wait_s": 0,
        "poll_s": POLL_S,
        "kubeconfig": str(KUBELET),
    }
    found: list[Node] = []
    slurm = SlurmNode("", name)
    if slurm.known:
        found.append(SlurmService(given))
    elif slurm.installed and "not found" not in slurm.output and workloads.active("slurmd.service"):
        raise RefusalError(
            f"Whether jobs run on {name} is unknown, because Slurm's controller does not answer: "
            f"{slurm.output!r}. Run again when `scontrol ping` reports a controller. Nothing was changed."
        )
    if KUBELET.exists():
        try:
            found.append(KubernetesService(given))
        except RefusalError as error:
            if "NotFound" not in str(error) and workloads.active("kubelet.service"):
                raise RefusalError(
                    f"Whether pods run on {name} is unknown: {error} Run again when the API server answers. "
                    "Nothing was changed."
                ) from error
    return found


def kubernetes_node() -> KubernetesService | None:
    """This host as a node of Kubernetes. Raises RefusalError if a running scheduler does not answer."""
    try:
        found = services(node_name()) if KUBELET.exists() else []
    except SlurmError as error:
        raise RefusalError(str(error)) from error
    return next((each for each in found if isinstance(each, KubernetesService)), None)


def holders(name: str, found: list[Node], stops: Stops) -> list[str]:
    """What runs on the host and would be stopped."""
    slurm = SlurmNode("", name)
    jobs = slurm.jobs()
    held = [f"job {each}" for each in describe(jobs).split("; ")] if jobs and slurm.known else []
    held += [] if slurm.known else [f"job step of process {each}" for each in jobs]
    # Device plugins have GPUs open as long as they run, and are started again on a drained node as well.
    of_node: frozenset[str] = frozenset()
    for each in found:
        if isinstance(each, KubernetesService):
            pods = running(name, each.kubectl)
            held += holding(movable(pods), evicted=stops in EVICTS)
            of_node |= uids_of_node(pods)
    if stops == "pods":
        return held
    if stops != "containers" or not workloads.live_restore():
        held += workloads.containers(with_gpus=stops == "gpus")
    if stops != "containers":
        held += workloads.processes(of_node)
    if stops == "host":
        held += workloads.logins()
    return held


def take_out_of_service(
    change: str, *, stops: Stops = "gpus", check: bool = False, wait_s: float = 0, name: str = ""
) -> GuardResult:
    """Drain this node before a change, and return when nothing runs on it that the change would stop.

    `change` says what changes, as a clause ("the driver changes from A to B"). Waits `wait_s` seconds for
    running work, then raises RefusalError with what still runs; the node stays drained. A node that others
    have drained stays theirs. In check mode nothing is drained, and running work is a refusal too.
    """
    name = name or node_name()
    try:
        found = services(name)
        taken = GuardResult()
        for each in found:
            if each.taken:
                taken.drained |= each.ours
                continue
            taken.drained = True
            taken.diff.append(difference(name, f"{each.status()}\n", f"{each.note()}\n"))
            if not check:
                each.take()
        deadline = time.monotonic() + (0 if check else wait_s)
        while held := holders(name, found, stops):
            if time.monotonic() >= deadline:
                raise RefusalError(_refusal(name, change, held, found, check))
            time.sleep(min(POLL_S, max(deadline - time.monotonic(), 0.1)))
        if stops in EVICTS and not check:
            _evict(name, change, found)
    except SlurmError as error:
        raise RefusalError(f"{error} Nothing was changed.") from error
    return taken


def give_back(*, check: bool = False, name: str = "") -> list[dict[str, str]]:
    """Return the node to each scheduler in which the guard drained it; the difference of each."""
    name = name or node_name()
    diff = []
    try:
        for each in services(name):
            if each.ours:
                diff.append(difference(name, f"{each.status()}\n", "in service\n"))
                if not check:
                    each.give_back()
    except SlurmError as error:
        raise RefusalError(str(error)) from error
    return diff


def _evict(name: str, change: str, found: list[Node]) -> None:
    """Evict pods without devices before the change; disruption budgets may refuse."""
    for each in found:
        if isinstance(each, KubernetesService) and (why := evict(name, each.kubectl, EVICTION_S)):
            raise RefusalError(
                f"{change}, and {why} The node stays cordoned. See PodDisruptionBudgets, or delete these "
                "pods, and run again. Nothing was changed."
            )


def _refusal(name: str, change: str, held: list[str], found: list[Node], check: bool) -> str:
    shown = "; ".join(held[:SHOWN]) + (f"; and {len(held) - SHOWN} more" if len(held) > SHOWN else "")
    drain = "would be drained" if check else "is drained"
    node = f"The node {drain}, so that no new work starts. " if found else ""
    return (
        f"{change[:1].upper()}{change[1:]}, and {name} is in use by {shown}. {node}"
        "Wait until they end, or end them, and run again with --resume. Nothing was changed."
    )
