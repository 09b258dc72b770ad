"""A site with instances in the emulated AWS, a queue of notices, a Slurm that is a file, and real handlers.

Tests and `make bench` use it: the handler is a process of its own, so that it can be killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import boto3

from gpufleet.lab.aws.throwaway import ThrowawayAccount
from gpufleet.notices.notes import Notes
from tests.bench.sqs_server import SqsServer
from tests.unit.notices import events
from tests.unit.notices.events import REGION
from tests.unit.notices.fake_slurm import FakeSlurm, install_commands

TAGS = {"gpufleet:fleet": "atlas", "gpufleet:site": "use1"}
NODES_OF_A_JOB = 4


class NoticeSite:
    """`nodes` instances n0001.., every four of them with one job."""

    def __init__(self, folder: Path, nodes: int, queue: SqsServer | None = None) -> None:
        self.folder = folder
        self.account = ThrowawayAccount(folder)
        self._env = {**os.environ, **self.account.env}
        self._process: subprocess.Popen[bytes] | None = None
        self._sqs = self._client("sqs")
        self.instances = self._launch(nodes)
        self.strangers = self._launch(2, tags={"gpufleet:fleet": "other"})
        self.names = {instance: f"n{number:04d}" for number, instance in enumerate(self.instances, 1)}
        jobs = {
            str(first // NODES_OF_A_JOB + 1): [
                self.names[each] for each in self.instances[first : first + NODES_OF_A_JOB]
            ]
            for first in range(0, nodes, NODES_OF_A_JOB)
        }
        self.slurm = FakeSlurm(folder / "slurm").create(self._addresses(), jobs)
        install_commands(folder / "bin")
        self._server = queue
        if queue is None:
            given = {"QueueName": "notices", "Attributes": {"VisibilityTimeout": "10"}}
            self.queue = self._sqs.create_queue(**given)["QueueUrl"]
        else:
            self.queue = queue.url
            self._env["AWS_ENDPOINT_URL_SQS"] = queue.url.partition("/123456789012")[0]
        self.settings = folder / "settings.json"
        self.state = folder / "state"
        self.settings.write_text(json.dumps(self._settings()))

    def _client(self, service: str) -> Any:
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self._env["AWS_ENDPOINT_URL"],
            aws_access_key_id=self._env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self._env["AWS_SECRET_ACCESS_KEY"],
        )

    def _launch(self, count: int, tags: dict[str, str] | None = None) -> list[str]:
        given = [{"Key": key, "Value": value} for key, value in (tags or TAGS).items()]
        made = self._client("ec2").run_instances(
            ImageId="ami-12c6146b",
            InstanceType="g6.xlarge",
            MinCount=count,
            MaxCount=count,
            TagSpecifications=[{"ResourceType": "instance", "Tags": given}],
        )["Instances"]
        self._addresses_of = getattr(self, "_addresses_of", {}) | {
            each["InstanceId"]: each["PrivateIpAddress"] for each in made
        }
        return [each["InstanceId"] for each in made]

    def _addresses(self) -> dict[str, str]:
        return {name: self._addresses_of[instance] for instance, name in self.names.items()}

    def _settings(self) -> dict[str, Any]:
        return {
            "queue_url": self.queue,
            "region": REGION,
            "scheduler": "slurm",
            "tags": TAGS,
            "state": str(self.state),
            "metrics_port": 0,
            # The emulated AWS answers one call at a time: a waiting one stops all.
            "poll_s": 0,
        }

    def start(self) -> None:
        """Start the handler."""
        path = f"{self.folder / 'bin'}:{self._env['PATH']}"
        with (self.folder / "handler.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gpufleet.notices", str(self.settings)],
                env={**self._env, "PATH": path, "FAKE_SLURM": str(self.folder / "slurm")},
                stderr=log,
            )

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the handler and wait for it."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def stop(self) -> None:
        """End the handler and the emulated AWS."""
        self.kill()
        self.account.end()

    def send(self, bodies: Sequence[str]) -> None:
        """Put messages into the queue, ten at a time."""
        if self._server is not None:
            self._server.send(list(bodies))
            return
        for first in range(0, len(bodies), 10):
            batch = bodies[first : first + 10]
            entries = [{"Id": str(index), "MessageBody": body} for index, body in enumerate(batch)]
            self._sqs.send_message_batch(QueueUrl=self.queue, Entries=entries)

    def storm(self, random: Random, notices: int) -> list[str]:
        """Notices for all nodes, with duplicates, later and other kinds, malformed and foreign ones."""
        now = time.time()
        own = [events.spot(each, at=now, id=f"spot-{each}") for each in self.instances]
        more = [events.rebalance(each, at=now, id=f"rebalance-{each}") for each in self.instances]
        other = [
            events.spot(self.strangers[0], at=now, id="stranger"),
            events.spot(self.instances[0], at=now, id="account", account="210987654321"),
            events.event(
                "EC2 Instance State-change Notification", {"instance-id": "i-0"}, at=now, id="state"
            ),
            "no json",
            "{}",
        ]
        rest = notices - len(own) - len(other)
        found = [*own, *other, *random.choices([*own, *more], k=rest)]
        random.shuffle(found)
        return found

    def wait_for_signals(self, limit_s: float) -> None:
        """Wait until all nodes are drained and all jobs are signalled; fail after `limit_s`."""
        until = time.monotonic() + limit_s
        nodes, jobs = set(self.names.values()), set()
        with self.slurm.state(write=False) as state:
            jobs = set(state["jobs"])
        while time.monotonic() < until:
            if nodes <= set(self.slurm.logged("drain")) and jobs <= set(self.slurm.logged("signal")):
                return
            time.sleep(0.2)
        log = (self.folder / "handler.log").read_text()[-2000:]
        drained = len(set(self.slurm.logged("drain")))
        raise AssertionError(f"{drained} of {len(nodes)} nodes are drained after {limit_s} s\n{log}")

    def audit(self) -> list[dict[str, Any]]:
        """The lines of the audit log."""
        return [json.loads(line) for line in (self.state / "audit.jsonl").read_text().splitlines()]

    def states(self) -> dict[str, str]:
        """The state of each case."""
        notes = Notes(self.state / "notes.sqlite")
        try:
            return {case.subject: case.state for case in notes.all_cases()}
        finally:
            notes.close()

    def left_in_queue(self) -> int:
        """Messages in the queue, given out or not."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self._sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)
