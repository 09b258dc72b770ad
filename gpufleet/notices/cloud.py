"""The handler's calls of AWS: its queue, the instances that notices name, and their replacement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from gpufleet.notices.scheduler import Instance
from gpufleet.notices.settings import HandlerSettings

NODE_TAG = "gpufleet:slurm-node"
"""The tag of an instance with the name of its Slurm node."""

BATCH = 10
"""Messages of one call (SQS API Reference, ReceiveMessage)."""

FILTER = 200
"""Values of one filter (EC2 API Reference, DescribeInstances)."""

_GONE = ("shutting-down", "terminated", "stopping", "stopped")

CloudErrors = (BotoCoreError, ClientError)


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the queue; `sent` in epoch seconds."""

    body: str
    receipt: str
    sent: float


class Cloud:
    """AWS in the site's region, for one thread or several: boto3's clients are safe for threads."""

    def __init__(self, settings: HandlerSettings) -> None:
        config = Config(
            retries={"mode": "standard", "max_attempts": 4},
            connect_timeout=5,
            read_timeout=30,
            max_pool_connections=settings.receivers + 4,
        )
        self._settings = settings
        self._known: dict[str, Instance] = {}
        make = boto3.session.Session(region_name=settings.region).client
        self._sqs = make("sqs", config=config)
        self._ec2 = make("ec2", config=config)
        self._scaling = make("autoscaling", config=config)

    def receive(self, wait_s: int) -> list[Message]:
        """Return up to 10 messages; waits for the first."""
        found = self._sqs.receive_message(
            QueueUrl=self._settings.queue_url,
            MaxNumberOfMessages=BATCH,
            WaitTimeSeconds=wait_s,
            MessageSystemAttributeNames=["SentTimestamp"],
        )
        return [
            Message(each["Body"], each["ReceiptHandle"], int(each["Attributes"]["SentTimestamp"]) / 1000)
            for each in found.get("Messages", ())
        ]

    def delete(self, receipts: Sequence[str]) -> None:
        """Delete messages. One whose receipt is too old comes again, and is a duplicate."""
        for batch in _batches(receipts, BATCH):
            self._sqs.delete_message_batch(
                QueueUrl=self._settings.queue_url,
                Entries=[{"Id": str(index), "ReceiptHandle": each} for index, each in enumerate(batch)],
            )

    def instances(self, ids: Sequence[str]) -> dict[str, Instance]:
        """Return those instances that have the site's tags, by id. Others, and unknown ids, are left out."""
        found: dict[str, Instance] = {}
        for batch in _batches(ids, FILTER):
            found |= {each.id: each for each in self._described("instance-id", batch)}
        return found

    def known(self, ids: Sequence[str]) -> dict[str, Instance]:
        """Return those that ran when `remember` was last called: for notices that have just arrived."""
        known = self._known
        return {each: known[each] for each in ids if each in known}

    def remember(self) -> None:
        """List the running instances of the site, so that a storm of notices needs no calls."""
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in self._settings.tags.items()]
        self._known = {each.id: each for each in self._matching(filters) if each.alive}

    def of_reservation(self, reservation: str) -> list[str]:
        """Return the ids of the site's instances in a capacity reservation."""
        return [each.id for each in self._described("capacity-reservation-id", [reservation]) if each.alive]

    def _described(self, key: str, values: Sequence[str]) -> Iterator[Instance]:
        # By filter, since an unknown id as a parameter fails the whole call.
        return self._matching([{"Name": key, "Values": list(values)}])

    def _matching(self, filters: Sequence[Mapping[str, Any]]) -> Iterator[Instance]:
        for page in self._ec2.get_paginator("describe_instances").paginate(Filters=filters):
            for reservation in page["Reservations"]:
                for each in reservation["Instances"]:
                    tags = {tag["Key"]: tag["Value"] for tag in each.get("Tags", ())}
                    if has_tags(tags, self._settings.tags):
                        yield _instance(each, tags)

    def replace(self, instance: str) -> str:
        """End a drained instance so that its Auto Scaling group starts another. Return what happened."""
        return self._end(instance, smaller=False) or "replaced"

    def remove(self, instance: str) -> str:
        """End a drained instance and make its Auto Scaling group smaller. Return what happened.

        A group that has its minimum again keeps its size.
        """
        try:
            return self._end(instance, smaller=True) or "removed"
        except ClientError as error:
            if not _below_minimum(error):
                raise
        return self.replace(instance)

    def _end(self, instance: str, *, smaller: bool) -> str:
        try:
            self._scaling.terminate_instance_in_auto_scaling_group(
                InstanceId=instance, ShouldDecrementDesiredCapacity=smaller
            )
        except ClientError as error:
            # In no group, or gone: nothing is to be ended.
            if error.response["Error"]["Code"] == "ValidationError" and not _below_minimum(error):
                return "in no group"
            raise
        return ""


def has_tags(tags: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Return whether an instance has all wanted tags."""
    return all(tags.get(key) == value for key, value in wanted.items())


def _instance(found: Mapping[str, Any], tags: Mapping[str, str]) -> Instance:
    return Instance(
        id=found["InstanceId"],
        address=found.get("PrivateIpAddress", ""),
        dns_name=found.get("PrivateDnsName", ""),
        node=tags.get(NODE_TAG, ""),
        alive=found["State"]["Name"] not in _GONE,
        spot=found.get("InstanceLifecycle") == "spot",
    )


def _below_minimum(error: ClientError) -> bool:
    """Return whether Auto Scaling refuses because the group would be smaller than its minimum."""
    return "min size" in str(error.response["Error"].get("Message", "")).lower()


def _batches(values: Iterable[str], size: int) -> Iterator[list[str]]:
    known = list(values)
    for first in range(0, len(known), size):
        yield known[first : first + size]
