"""A thousand notices for 500 nodes in ten seconds, and how soon each node is drained.

The handler is a process, as on a controller; EC2 is the emulated AWS, SQS a queue in memory, Slurm a file.
No peer drains Slurm nodes by notices: compare with the two minutes that a spot instance has, and
with the 5 seconds that the handler promises.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from rich.table import Table

from tests.bench.sqs_server import SqsServer
from tests.notice_site import NoticeSite

NODES, NOTICES, SECONDS, SEED = 500, 1000, 10.0, 24


@dataclass(frozen=True)
class Reactions:
    """Seconds from the arrival of a notice in the queue to the drain of its node, sorted."""

    seconds: list[float]
    drained_twice: int
    lost: int

    def at(self, share: float) -> float:
        """A percentile."""
        return self.seconds[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


def measure(folder: Path, *, kill: bool = False, nodes: int = NODES, notices: int = NOTICES) -> Reactions:
    """Send the notices evenly over ten seconds; with `kill` the handler is killed in the middle."""
    queue = SqsServer()
    site = NoticeSite(folder, nodes, queue)
    try:
        site.start()
        _until_started(site)
        storm = site.storm(Random(SEED), notices)
        sender = threading.Thread(target=_send, args=(site, storm))
        sender.start()
        if kill:
            time.sleep(SECONDS / 2)
            site.kill()
            site.start()
        sender.join()
        site.wait_for_signals(120)
        site.kill()
        drained = site.slurm.logged("drain")
        seconds = sorted(
            line["after_s"] for line in site.audit() if line["event"] == "drained" and line["kind"] == "spot"
        )
        return Reactions(
            seconds, len(drained) - len(set(drained)), len(set(site.names.values()) - set(drained))
        )
    finally:
        site.stop()
        queue.shutdown()
        queue.server_close()


def _until_started(site: NoticeSite) -> None:
    until = time.monotonic() + 60
    while not (site.state / "audit.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.1)


def _send(site: NoticeSite, storm: list[str]) -> None:
    start, batches = time.monotonic(), range(0, len(storm), 10)
    for index, first in enumerate(batches):
        time.sleep(max(0.0, start + SECONDS * index / len(batches) - time.monotonic()))
        site.send(storm[first : first + 10])


def table() -> Table:
    """Both runs: without and with a kill."""
    found = Table(
        "run", "nodes", "median", "99 %", "slowest", "lost", "drained twice",
        title=f"{NOTICES} notices in {SECONDS:.0f} s: seconds to the drain of the node",
    )  # fmt: skip
    for name, kill in (("undisturbed", False), ("killed in the middle", True)):
        with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
            run = measure(Path(folder), kill=kill)
        found.add_row(
            name,
            str(NODES),
            f"{statistics.median(run.seconds):.2f}",
            f"{run.at(0.99):.2f}",
            f"{run.seconds[-1]:.2f}",
            str(run.lost),
            str(run.drained_twice),
        )
    return found
