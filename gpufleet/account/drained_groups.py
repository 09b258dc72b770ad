"""Node groups whose spot nodes a breach of the budget drains: their records, and the end of the drain."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ClientError
from msgspec import Struct

BATCH = 10
"""Messages of one call (SQS API Reference, SendMessageBatch)."""


class Drain(Struct, frozen=True):
    """A group that drains: since when, and its minimum, size and maximum before. `since` is empty if a
    `resume` of it did not end. `nodes` is how many it has left; None if Slurm launches them."""

    since: str
    sizes: tuple[int, int, int]
    nodes: int | None = None


class DrainRecords:
    """The parameters of the groups in the folder `path`, in the region of `ssm`."""

    def __init__(self, ssm: Any, path: str) -> None:
        self._ssm = ssm
        self._path = path

    def read(self) -> dict[str, Drain]:
        """Return the groups that drain, by resource name."""
        found: dict[str, Drain] = {}
        for page in self._ssm.get_paginator("get_parameters_by_path").paginate(Path=self._path):
            for each in page["Parameters"]:
                kept = json.loads(each["Value"])
                if kept:
                    least, desired, most = (int(size) for size in kept["sizes"])
                    name = each["Name"].rpartition("/")[2]
                    found[name] = Drain(str(kept.get("since", "")), (least, desired, most))
        return found

    def begin_resume(self, group: str, drain: Drain) -> None:
        """Keep the sizes only: if the budget is spent again before the resume ends, the drain starts over."""
        self._write(group, {"since": "", "sizes": list(drain.sizes)})

    def clear(self, group: str) -> None:
        """Forget the group."""
        self._write(group, {})

    def _write(self, group: str, kept: dict[str, Any]) -> None:
        value = json.dumps(kept, separators=(",", ":"))
        self._ssm.put_parameter(Name=f"{self._path}/{group}", Value=value, Type="String", Overwrite=True)


def call_off(sqs: Any, queue: str, instances: Sequence[str], account: str, region: str) -> None:
    """Tell the handler of a site that instances need not drain. Without its queue there is none."""
    try:
        url = sqs.get_queue_url(QueueName=queue)["QueueUrl"] if instances else ""
    except ClientError as error:
        if "NonExistentQueue" in error.response["Error"]["Code"]:
            return
        raise
    now = dt.datetime.now(dt.UTC)
    for first in range(0, len(instances), BATCH):
        entries = [
            {"Id": str(place), "MessageBody": json.dumps(_notice(instance, account, region, now))}
            for place, instance in enumerate(instances[first : first + BATCH])
        ]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)


def _notice(instance: str, account: str, region: str, now: dt.datetime) -> dict[str, Any]:
    """Return the notice that withdraws that of the budget's function (`components.functions.drain_spot`)."""
    return {
        "id": f"resume/{now.isoformat()}/{instance}",
        "source": "gpufleet.budget",
        "detail-type": "gpufleet Spot Drain",
        "account": account,
        "region": region,
        "time": now.isoformat(timespec="seconds"),
        "detail": {"instance-id": instance, "state": "resumed"},
    }


def instances_of(scaling: Any, group: str) -> list[str]:
    """Return the instances of an Auto Scaling group that are not ending."""
    found = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    return [
        each["InstanceId"]
        for one in found
        for each in one["Instances"]
        if not each["LifecycleState"].startswith("Terminat")
    ]
