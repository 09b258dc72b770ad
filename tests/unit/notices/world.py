"""A handler on a fake Slurm and fake AWS, with a clock that only the test moves."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpufleet.notices.audit import Audit
from gpufleet.notices.cloud import Message
from gpufleet.notices.handler import NoticeWorker
from gpufleet.notices.intake import Intake
from gpufleet.notices.metrics import Metrics
from gpufleet.notices.notes import Notes
from gpufleet.notices.scheduler import Instance
from gpufleet.notices.settings import HandlerSettings, settings_of
from gpufleet.notices.slurm import Slurm
from tests.unit.notices.events import ACCOUNT, NOW, REGION, instance_id
from tests.unit.notices.fake_slurm import ACKNOWLEDGED, FakeSlurm


def settings(**changes: object) -> HandlerSettings:
    return settings_of(
        {
            "queue_url": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/fleet-notices",
            "region": REGION,
            "scheduler": "slurm",
            "tags": {"gpufleet:fleet": "atlas"},
            **changes,
        },
        "test",
    )


@dataclass
class FakeCloud:
    """Instances of the site, reservations, and the queue with what was deleted."""

    known_instances: dict[str, Instance]
    reservations: dict[str, list[str]] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    remembered: dict[str, Instance] = field(default_factory=dict)

    def instances(self, ids: Sequence[str]) -> dict[str, Instance]:
        return {each: self.known_instances[each] for each in ids if each in self.known_instances}

    def known(self, ids: Sequence[str]) -> dict[str, Instance]:
        return {each: self.remembered[each] for each in ids if each in self.remembered}

    def of_reservation(self, reservation: str) -> list[str]:
        return self.reservations.get(reservation, [])

    def replace(self, instance: str) -> str:
        self.replaced.append(instance)
        return "replaced"

    def remove(self, instance: str) -> str:
        self.removed.append(instance)
        return "removed"

    def receive(self, wait_s: int) -> list[Message]:
        raise AssertionError(f"the test gives the messages (asked for {wait_s} s)")

    def delete(self, receipts: Sequence[str]) -> None:
        self.deleted += receipts


@dataclass
class World:
    """Everything that a handler works on. `restart` is a kill -9: only files stay."""

    folder: Path
    slurm: FakeSlurm
    cloud: FakeCloud
    settings: HandlerSettings
    now: float = NOW

    def __post_init__(self) -> None:
        self.notes = self._open()

    def restart(self) -> None:
        self.notes.close()
        self.notes = self._open()

    def _open(self) -> Notes:
        self.notes = Notes(self.folder / "notes.sqlite")
        audit, self.metrics = Audit(self.folder / "audit.jsonl"), Metrics(self.notes.counts)
        self.handler = NoticeWorker(
            self.settings,
            self.notes,
            self.cloud,
            Slurm(self.settings.acknowledgements, run=self.slurm.run),
            audit,
            self.metrics,
            clock=lambda: self.now,
        )
        self.intake = Intake(
            self.settings,
            self.notes,
            self.cloud,
            audit,
            self.metrics,
            threading.Event(),
            clock=lambda: self.now,
        )
        return self.notes

    def send(self, *bodies: str) -> None:
        self.intake.take([Message(body, f"r-{hash(body)}", self.now) for body in bodies])

    def settle(self) -> None:
        """Work until nothing is left to do at this time."""
        while self.handler.round():
            pass
        self.intake.settle()

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    def acknowledge(self, job: str) -> None:
        with self.slurm.state() as state:
            state["jobs"][job]["comment"] = f"{ACKNOWLEDGED}{self.now:.0f}"

    def states(self) -> dict[str, str]:
        return {case.subject: case.state for case in self.notes.all_cases()}


def world(
    folder: Path, nodes: int = 4, jobs: dict[str, Sequence[int]] | None = None, **changes: object
) -> World:
    """Nodes n001.. on instances 1.., and jobs on nodes by their numbers."""
    numbers = range(1, nodes + 1)
    slurm = FakeSlurm(folder / "slurm").create(
        {f"n{number:03d}": f"10.0.0.{number}" for number in numbers},
        {job: [f"n{number:03d}" for number in on] for job, on in (jobs or {}).items()},
    )
    return World(folder, slurm, FakeCloud(instances(numbers)), settings(**changes))


def instances(numbers: Iterable[int]) -> dict[str, Instance]:
    found = {}
    for number in numbers:
        name = f"ip-10-0-0-{number}.ec2.internal"
        found[instance_id(number)] = Instance(instance_id(number), f"10.0.0.{number}", name)
    return found
