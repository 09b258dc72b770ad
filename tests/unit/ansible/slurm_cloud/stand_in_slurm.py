"""slurmctld with cloud nodes, from memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cloud_nodes.slurm import SlurmError

NODES = 6
PREFIX = "use1-sweep-"
RESUME_S, SUSPEND_S, IDLE_S = 300.0, 60.0, 120.0
BOOT_S = 40.0


@dataclass
class CloudNode:
    """A node: base state, flags, address, reason, the job on it, and since when it powers up or down."""

    state: str = "idle"
    flags: set[str] = field(default_factory=lambda: {"cloud", "powered_down"})
    address: str = ""
    reason: str = "none"
    job: int | None = None
    since: float = 0.0
    late: bool = False
    """Whether it has registered after its ResumeTimeout: Slurm powers it down again when it is idle."""
    up: bool = True
    """Whether it is in the bitmap of nodes that are up: not after it was set or powered down, until it
    registers (slurmctld/node_mgr.c, up_node_bitmap)."""


class StandInSlurm:
    """slurmctld's rules for cloud nodes (Slurm Power Saving Guide), and the output of its commands.

    `tests/rack/roles/test_cloud_nodes.py` runs the program with a real one.
    """

    def __init__(self, running: Callable[[], dict[str, float]]) -> None:
        self.running = running
        """Returns the addresses of running instances, and when each was first seen."""
        self.nodes = {f"{PREFIX}{number}": CloudNode() for number in range(1, NODES + 1)}
        self.jobs: dict[int, tuple[int, float]] = {}
        """Job -> its number of nodes and how long it runs."""
        self.ended: set[int] = set()
        self.resumes: list[list[str]] = []
        self.now = 1_800_000_000.0
        self.fails = 0
        self.reported: list[Sequence[str]] = []
        """The commands that it was given."""
        self.signalled: list[int] = []
        self.requeued: list[int] = []
        self.comments: dict[int, str] = {}
        self.stubborn: set[int] = set()
        """Jobs that may not be queued again."""
        self.only_backfill = False
        """Whether the main scheduler does not run, as after a failover before Slurm 23.02.4."""
        self.dies_before = ""
        """The command before which the program is killed."""
        self.appends_reasons = False
        """Whether its own reasons follow older ones, as from Slurm 23.02 on (set_node_reason)."""

    def submit(self, job: int, nodes: int, seconds: float) -> None:
        self.jobs[job] = (nodes, seconds)

    def on(self, job: int) -> list[str]:
        """The nodes of a job."""
        return [name for name, node in self.nodes.items() if node.job == job]

    def tick(self, seconds: float) -> None:
        """Let time pass: nodes register, time out, power down; jobs start and end."""
        self.now += seconds
        addresses = self.running()
        for name, node in self.nodes.items():
            booted = addresses.get(node.address, self.now) + BOOT_S <= self.now
            if "powering_up" in node.flags and node.state != "down":
                if booted and node.address:
                    node.flags.discard("powering_up")
                    node.since, node.up = self.now, True
                elif self.now - node.since > RESUME_S:
                    older = f"{node.reason} : " if self.appends_reasons and node.reason != "none" else ""
                    self._down(node, f"{older}ResumeTimeout reached")
                    node.flags.discard("powering_up")
                    node.flags |= {"powered_down", "not_responding"}
            elif "powering_down" in node.flags:
                if self.now - node.since > SUSPEND_S:
                    node.flags -= {"powering_down", "powering_up"}
                    node.flags.add("powered_down")
                    node.address = name
            elif node.flags & {"powered_down"}:
                continue
            elif node.state == "down" and node.late:
                if self.now - node.since > IDLE_S:
                    # As with `idle_on_node_suspend`: the node stays out of the bitmap.
                    node.state, node.since, node.late = "idle", self.now, False
                    node.flags.add("powering_down")
            elif node.state in ("idle", "allocated"):
                if node.job is not None and node.address not in addresses:
                    continue  # SlurmdTimeout is longer than the program's own look
                if node.job is None and self.now - node.since > IDLE_S:
                    node.flags.add("powering_down")
                    node.since = self.now
        self._schedule()

    def register_late(self, node: CloudNode) -> None:
        """Let a node register that is down since its ResumeTimeout (slurmctld/node_mgr.c, "now responding").

        It loses its reason (clusteracct_storage_g_node_up).
        """
        assert node.state == "down"
        node.flags -= {"powered_down", "not_responding"}
        node.reason, node.since, node.late = "none", self.now, True

    def _schedule(self) -> None:
        for job, (count, seconds) in list(self.jobs.items()):
            mine = self.on(job)
            if mine:
                up = all("powering_up" not in self.nodes[name].flags for name in mine)
                if up and all(self.now - self.nodes[name].since >= seconds for name in mine):
                    del self.jobs[job]
                    self.ended.add(job)
                    for name in mine:
                        self.nodes[name].job, self.nodes[name].state = None, "idle"
                        self.nodes[name].since = self.now
                continue
            free = [
                name
                for name, node in self.nodes.items()
                if node.state == "idle" and node.job is None and not node.flags & {"powering_down", "drain"}
                if node.up or not self.only_backfill
            ][:count]
            if len(free) < count:
                continue
            asleep = [name for name in free if "powered_down" in self.nodes[name].flags]
            for name in free:
                node = self.nodes[name]
                node.job, node.state, node.since = job, "allocated", self.now
            for name in asleep:
                self.nodes[name].flags.discard("powered_down")
                self.nodes[name].flags.add("powering_up")
            if asleep:
                self.resumes.append(asleep)

    def _down(self, node: CloudNode, reason: str) -> None:
        node.state, node.reason, node.up = "down", reason, False
        job, node.job = node.job, None
        for other in self.nodes.values():
            if job is not None and other.job == job:
                other.job, other.state, other.since = None, "idle", self.now

    def run(self, words: Sequence[str]) -> str:
        """Answer a command of Slurm."""
        self.reported.append(words)
        if self.fails:
            self.fails -= 1
            raise SlurmError("scontrol: Unable to contact slurm controller")
        if words[0] == self.dies_before:
            self.dies_before = ""
            raise SystemExit
        match words[:2]:
            case ["squeue", _] if "--nodelist" in words:
                asked = set(words[words.index("--nodelist") + 1].split(","))
                return "".join(
                    f"{job:<32}{'R':<16}{self.comments.get(job, '(null)'):<64}{','.join(on):<8192}\n"
                    for job in self.jobs
                    if asked & set(on := self.on(job))
                )
            case ["scancel", "--signal=USR1"]:
                self.signalled.append(int(words[3]))
                return ""
            case ["scontrol", "requeue"]:
                self._requeue(int(words[2]))
                return ""
            case ["sinfo", _]:
                return "".join(
                    f"{name:<64}{node.address or name:<128}"
                    f"{'+'.join([node.state, *sorted(node.flags)]):<128}{node.reason:<512}\n"
                    for name, node in self.nodes.items()
                )
            case ["squeue", _]:
                waiting = [
                    self.on(job)
                    for job in self.jobs
                    if any("powering_up" in self.nodes[name].flags for name in self.on(job))
                ]
                return "".join(f"{','.join(names):<8192}\n" for names in waiting)
            case ["scontrol", "show"]:
                return "\n".join(words[3].split(","))
            case ["scontrol", "ping"]:
                return "Slurmctld(primary) at ctl01 is DOWN\nSlurmctld(backup) at ctl02 is UP\n"
            case ["scontrol", "update"]:
                self._update(dict(word.split("=", 1) for word in words[2:]))
                return ""
        raise AssertionError(words)

    def _requeue(self, job: int) -> None:
        if job in self.stubborn:
            raise SlurmError("scontrol: Requested operation is presently disabled for job")
        self.requeued.append(job)
        for name in self.on(job):
            self.nodes[name].job, self.nodes[name].state = None, "idle"
            self.nodes[name].since = self.now

    def _update(self, given: dict[str, str]) -> None:
        names = given["nodename"].split(",")
        for place, name in enumerate(names):
            node = self.nodes[name]
            if "nodeaddr" in given:
                node.address = given["nodeaddr"].split(",")[place]
            elif given["state"] == "down":
                self._down(node, given["reason"])
            elif given["state"] == "drain":
                node.flags.add("drain")
                node.reason = given["reason"]
            elif given["state"] == "resume":
                node.flags.discard("drain")
                node.reason = "none"
            elif given["state"] == "power_down_force":
                self._down(node, node.reason)
                node.state, node.since = "idle", self.now
                if "powered_down" not in node.flags:
                    node.flags.add("powering_down")
                node.flags -= {"powering_up", "not_responding"}
                # As with `idle_on_node_suspend`, which the role slurm_controller sets.
                node.flags.discard("drain")
            elif given["state"] == "idle":
                assert node.state in ("idle", "down")
                node.flags.discard("drain")
                # The accounting takes the reason away (clusteracct_storage_g_node_up).
                node.state, node.reason, node.up = "idle", "none", True
