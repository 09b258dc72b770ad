"""One pass: read Slurm and EC2, decide, act. Passes of a host follow each other, by a lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from functools import partial
from pathlib import Path

from cloud_nodes import bursts
from cloud_nodes.aws import CloudErrors, Ec2, LaunchResult
from cloud_nodes.burst import Decision
from cloud_nodes.decide import FREE, Actions, Instance, Launch, Memory, blocked, decide, failure
from cloud_nodes.drain import drain_spot
from cloud_nodes.journal import log
from cloud_nodes.settings import Settings, Site
from cloud_nodes.slurm import Node, Slurm, SlurmError
from cloud_nodes.waiting import Queue

RECONNECT_S = 1800.0

BURST_S = 30.0
"""How often waiting jobs are looked at: Slurm's backfill makes its estimates as often (bf_interval)."""

BUDGET_SPENT = "the budget is spent"
"""The reason of nodes of a group that a breach of the budget stopped (`gpufleet budget resume`)."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of passes on this host."""
    with path.open("a", encoding="utf-8") as handle:
        flock(handle, LOCK_EX)
        yield


class Passes:
    """Passes over all sites. A site whose EC2 does not answer is left as it is until the next one."""

    def __init__(
        self,
        settings: Settings,
        slurm: Slurm,
        *,
        queue: Queue | None = None,
        connect: Callable[[Site], Ec2] = Ec2,
        clock: Callable[[], float] = time.time,
        munge_key: str = "",
        lasting: bool = False,
    ) -> None:
        """`lasting`: more passes follow. Only such a program reports nodes to Slurm as free."""
        self._settings = settings
        self._slurm = slurm
        self._queue = queue or Queue()
        self._burst_at = 0.0
        self._connect = connect
        self._clock = clock
        self._memory = Memory()
        self._munge_key = munge_key
        self._lasting = lasting
        self._connected: dict[str, tuple[Ec2, float]] = {}

    def forget(self) -> None:
        """Forget what earlier passes saw: another controller decides since."""
        self._memory = Memory()

    def run(self, resumed: Collection[str] = (), since: float = 0.0) -> bool:
        """Do what is missing; return whether everything was done. Raises SlurmError if Slurm is silent."""
        nodes, waiting = self._slurm.nodes(), self._slurm.waiting()
        self._memory.usable -= {name for name, node in nodes.items() if "down" in node.states}
        complete = True
        for site in self._settings.sites:
            try:
                ec2 = self._ec2(site)
                instances = ec2.instances()
            except CloudErrors as error:
                log("failed", site=site.site, error=str(error)[:300])
                complete = False
                continue
            alone = Settings((site,), self._settings.retry_s)
            actions = decide(
                alone, nodes, instances, waiting, self._memory, self._clock(), resumed, since or self._clock()
            )
            complete = self._act(site, ec2, actions, nodes, instances) and complete
            complete = self._drain(site, ec2, nodes, instances) and complete
        return complete

    def burst(self) -> None:
        """Let waiting jobs of the racks use cloud nodes, as the rules of each site say. Raises SlurmError."""
        if self._clock() - self._burst_at < BURST_S:
            return
        self._burst_at = self._clock()
        bursts.apply(self._queue, self.decisions())

    def decisions(self) -> list[Decision]:
        """Return what the rules of all sites say of each waiting job. Raises SlurmError.

        A site whose EC2 does not answer says nothing.
        """
        bursting = [(site, site.burst) for site in self._settings.sites if site.burst is not None]
        if not bursting:
            return []
        nodes = self._slurm.nodes()
        jobs = self._queue.jobs([group.partition for _, burst in bursting for group in burst.groups])
        found: list[Decision] = []
        for site, burst in bursting:
            try:
                ec2, now = self._ec2(site), self._clock()
                found += bursts.decisions(site, burst, jobs, self._queue, ec2, nodes, now)
            except (SlurmError, *CloudErrors) as error:
                log("failed", site=site.site, error=str(error)[:300])
        return bursts.merged(found)

    def _drain(
        self, site: Site, ec2: Ec2, nodes: Mapping[str, Node], instances: Collection[Instance]
    ) -> bool:
        """Take the next step with spot nodes of groups that a breach of the budget drains."""
        try:
            drain_spot(site, self._slurm, ec2.drained(), nodes, instances, self._clock())
        except (SlurmError, *CloudErrors) as error:
            log("failed", site=site.site, error=str(error)[:300])
            return False
        return True

    def _ec2(self, site: Site) -> Ec2:
        """Return the connection of a site. Credentials of a role last an hour at least."""
        known = self._connected.get(site.site)
        if known is None or self._clock() - known[1] > RECONNECT_S:
            ec2 = self._connect(site)
            if self._munge_key and site.munge_parameter and ec2.share_key(self._munge_key):
                log("shared the munge key", site=site.site)
            known = self._connected[site.site] = (ec2, self._clock())
        return known[0]

    def _act(
        self,
        site: Site,
        ec2: Ec2,
        actions: Actions,
        nodes: Mapping[str, Node],
        instances: Collection[Instance],
    ) -> bool:
        """Do the actions of a site; one that fails does not stop the others."""
        names = {each.id: each.node for each in instances}
        steps: list[Callable[[], None]] = []
        if actions.terminate:
            steps.append(partial(self._terminate, ec2, actions.terminate, names))
        steps += [partial(self._down, of, reason) for reason, of in _by_reason(actions.down).items()]
        if actions.power_down:
            steps.append(partial(self._power_down, actions.power_down))
        if actions.free and self._lasting:
            steps.append(partial(self._free, actions.free))
        if actions.addresses:
            steps.append(partial(self._slurm.addresses, actions.addresses))
        steps += [partial(self._launch, ec2, launch, nodes) for launch in actions.launch]
        done = True
        for step in steps:
            try:
                step()
            except (SlurmError, *CloudErrors) as error:
                log("failed", site=site.site, error=str(error)[:300])
                done = False
        return done

    def _terminate(self, ec2: Ec2, reasons: Mapping[str, str], names: Mapping[str, str]) -> None:
        ec2.terminate(reasons)
        for instance, reason in reasons.items():
            log("terminated", instance=instance, node=names[instance], reason=reason)

    def _down(self, nodes: Collection[str], reason: str) -> None:
        self._slurm.down(nodes, reason)
        log("set down", nodes=sorted(nodes), reason=reason)

    def _power_down(self, nodes: Collection[str]) -> None:
        self._slurm.power_down(nodes)
        log("powered down", nodes=sorted(nodes))

    def _free(self, nodes: Collection[str]) -> None:
        self._slurm.free(nodes, FREE)
        self._memory.usable.update(nodes)
        log("freed", nodes=sorted(nodes))

    def _launch(self, ec2: Ec2, launch: Launch, nodes: Mapping[str, Node]) -> None:
        # Asked before each launch, which fails without an answer: the budget may be spent.
        stopped = launch.group.name in ec2.stopped() | ec2.drained()
        launched = LaunchResult({}, BUDGET_SPENT) if stopped else ec2.launch(launch)
        log("launched", instances=dict(launched.instances), wanted=len(launch.nodes), code=launched.code)
        if launched.code:
            self._refuse(launch, launched, nodes)
        # An instance that is not listed yet gets its address in the next pass.
        addresses = ec2.addresses(launched.instances) if launched.instances else {}
        if addresses:
            self._slurm.addresses(addresses)

    def _refuse(self, launch: Launch, launched: LaunchResult, nodes: Mapping[str, Node]) -> None:
        """Set nodes down that got no instance: Slurm queues their jobs again."""
        reason = failure(launched.code, self._settings, self._clock())
        failed = [name for name in launch.nodes if name not in launched.instances]
        self._down([*failed, *blocked(launch, nodes)], reason)


def _by_reason(down: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, reason in down.items():
        found.setdefault(reason, []).append(name)
    return found
