"""Drain the spot nodes of an environment when a budget is spent beyond a share. Nothing else is touched.

A message of the budgets' topic starts it. It trusts no message: it asks AWS Budgets for the spending of the
environment, and of each site and team with a cap. Below the share it does nothing. Otherwise each group of
spot nodes of such a budget launches no more, its minimum becomes 0, and the queue of its site gets one notice
for each instance. The handler of interruptions takes it from there: it drains the node, lets jobs write a
checkpoint, ends the instance, and lowers the size of the group by one.

Nodes that the Slurm of a rack site launches belong to no group of AWS: its controllers read the record, drain
them, and launch no more.

Each group has a parameter of its own, which keeps the sizes that the group had. It is written before the
group changes, and sizes are read before the parameter is: so two runs at once write the same, and a run that
ends halfway can be repeated and undone. `gpufleet budget resume` undoes it.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)

SETTINGS = "settings.json"
OWN_MESSAGE = "gpufleet"
"""The attribute of this function's own messages, which the subscriptions of budgets leave out."""

SOURCE, DETAIL_TYPE = "gpufleet.budget", "gpufleet Spot Drain"
"""What the notices say that they are, in the form of EventBridge (`gpufleet.notices.events`)."""

BATCH = 10
"""Messages of one call (SQS API Reference, SendMessageBatch)."""

TRIES = 8

Clients = Callable[[str, str], Any]
"""Service and region -> boto3 client."""


class GoneError(Exception):
    """The group does not exist any more."""


@dataclass(frozen=True)
class SpotGroup:
    """A group of spot nodes: its name in the plan, its site's queue, its names in AWS, and its sizes."""

    name: str
    region: str
    queue: str
    group: str
    cluster: str
    scaling_group: str
    sizes: tuple[int, int, int]
    """Minimum, desired size and maximum."""


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Answer a message of the topic. Raises RuntimeError if a group could not be drained: Lambda retries."""
    import boto3
    from botocore.config import Config

    del event, context
    settings = json.loads(Path(__file__).with_name(SETTINGS).read_text(encoding="utf-8"))
    config = Config(retries={"mode": "adaptive", "max_attempts": TRIES})
    clients: dict[tuple[str, str], Any] = {}

    def client(service: str, region: str) -> Any:
        if (service, region) not in clients:
            clients[service, region] = boto3.client(service, region_name=region, config=config)
        return clients[service, region]

    result = drain(settings, os.environ["TOPIC_ARN"], client, dt.datetime.now(dt.UTC))
    log.info(json.dumps(result))
    if result["failed"]:
        raise RuntimeError(f"not drained: {', '.join(sorted(result['failed']))}")
    return result


def drain(settings: Mapping[str, Any], topic: str, client: Clients, now: dt.datetime) -> dict[str, Any]:
    """Drain the spot groups of each budget in `settings` that is spent beyond the share `at`.

    Returns `spent` (budget -> USD spent and its limit, of those beyond), `drained` (group -> the nodes that
    it had, of those that this run began with), `gone` (groups that do not exist) and `failed` (group, site or
    budget -> error).
    """
    _, _, _, home, account, _ = topic.split(":", 5)
    failed: dict[str, str] = {}
    drained: dict[str, int] = {}
    gone: list[str] = []
    spent, wanted = _spent(settings, client("budgets", home), account, failed)
    result = {"spent": spent, "drained": drained, "gone": gone, "failed": failed}
    if not wanted:
        return result
    ssm, missing = client("ssm", home), set(wanted)
    for group in (*_launched(settings, wanted), *_groups(settings, wanted, client, failed)):
        missing.discard(group.name)
        try:
            since, begins = _remember(ssm, settings["path"], group, now)
            nodes = _drain(group, client, account, since) if group.region else 0
        except GoneError:
            gone.append(group.name)
            continue
        except Exception as error:
            failed[group.name] = str(error)
            continue
        if begins:
            drained[group.name] = nodes
    if not any(site["name"] in failed for site in settings["sites"]):
        gone.extend(missing)
    gone.sort()
    if drained or failed:
        client("sns", home).publish(
            TopicArn=topic,
            Subject=f"{settings['budget']}: spot nodes drain"[:100],
            Message=_message(settings, result),
            MessageAttributes={OWN_MESSAGE: {"DataType": "String", "StringValue": "drain-spot"}},
        )
    return result


def _spent(
    settings: Mapping[str, Any], budgets: Any, account: str, failed: dict[str, str]
) -> tuple[dict[str, list[str]], set[str]]:
    """Return the budgets that are spent beyond the share, and the groups that they cover."""
    spent: dict[str, list[str]] = {}
    wanted: set[str] = set()
    for name, groups in settings["budgets"].items():
        try:
            found = budgets.describe_budget(AccountId=account, BudgetName=name)["Budget"]
        except Exception as error:
            failed[name] = str(error)
            continue
        amounts = found["CalculatedSpend"]["ActualSpend"]["Amount"], found["BudgetLimit"]["Amount"]
        if Decimal(amounts[0]) * 100 >= Decimal(amounts[1]) * Decimal(settings["at"]):
            spent[name] = list(amounts)
            wanted.update(groups)
    return spent, wanted


def _launched(settings: Mapping[str, Any], wanted: set[str]) -> Iterator[SpotGroup]:
    for name, most in settings.get("launched", {}).items():
        if name in wanted:
            yield SpotGroup(name, "", "", "", "", "", (0, 0, most))


def _groups(
    settings: Mapping[str, Any], wanted: set[str], client: Clients, failed: dict[str, str]
) -> Iterator[SpotGroup]:
    """Yield the groups of spot nodes with these names: those with all tags of the settings and of a site."""
    for site in settings["sites"]:
        try:
            listed = list(_of_site(site, {**settings["tags"], **site["tags"]}, client))
        except Exception as error:
            failed[site["name"]] = str(error)
            continue
        yield from (group for group in listed if group.name in wanted)


def _of_site(site: Mapping[str, Any], tags: Mapping[str, str], client: Clients) -> Iterator[SpotGroup]:
    region, queue, cluster = site["region"], site["queue"], site["cluster"]
    if not cluster:
        pages = client("autoscaling", region).get_paginator("describe_auto_scaling_groups")
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
        for page in pages.paginate(Filters=filters):
            for each in page["AutoScalingGroups"]:
                named = {tag["Key"]: tag["Value"] for tag in each["Tags"]}
                name = each["AutoScalingGroupName"]
                sizes = each["MinSize"], each["DesiredCapacity"], each["MaxSize"]
                yield SpotGroup(named.get("Name", ""), region, queue, name, "", name, sizes)
        return
    eks = client("eks", region)
    for page in eks.get_paginator("list_nodegroups").paginate(clusterName=cluster):
        for name in page["nodegroups"]:
            each = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
            named = each.get("tags") or {}
            if each.get("capacityType") != "SPOT" or any(named.get(key) != tags[key] for key in tags):
                continue
            scaling = each["scalingConfig"]
            sizes = scaling["minSize"], scaling["desiredSize"], scaling["maxSize"]
            own = each["resources"]["autoScalingGroups"][0]["name"]
            yield SpotGroup(named.get("Name", ""), region, queue, name, cluster, own, sizes)


def _remember(ssm: Any, path: str, group: SpotGroup, now: dt.datetime) -> tuple[str, bool]:
    """Write the sizes of a group into its parameter, unless they are there. Return since when it drains, and
    whether that began now. A record without a time is of a group that was just being resumed."""
    name = f"{path}/{group.name}"
    kept = json.loads(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    if kept.get("since"):
        return str(kept["since"]), False
    since = now.isoformat(timespec="seconds")
    value = json.dumps({"since": since, "sizes": kept.get("sizes") or group.sizes}, separators=(",", ":"))
    ssm.put_parameter(Name=name, Value=value, Type="String", Overwrite=True)
    return since, True


def _drain(group: SpotGroup, client: Clients, account: str, since: str) -> int:
    """Let a group launch no more, set its minimum to 0, and report its instances to its site's handler.
    Return how many it has. Raises GoneError."""
    scaling = client("autoscaling", group.region)
    try:
        scaling.suspend_processes(AutoScalingGroupName=group.scaling_group, ScalingProcesses=["Launch"])
        if group.sizes[0] and group.cluster:
            # Without the desired size, which an autoscaler may change meanwhile.
            client("eks", group.region).update_nodegroup_config(
                clusterName=group.cluster,
                nodegroupName=group.group,
                scalingConfig={"minSize": 0, "maxSize": group.sizes[2]},
            )
        elif group.sizes[0]:
            scaling.update_auto_scaling_group(AutoScalingGroupName=group.group, MinSize=0)
    except Exception as error:
        if _is_gone(error):
            raise GoneError from None
        raise
    # Listed after it launches no more.
    found = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group.scaling_group])
    if not found["AutoScalingGroups"]:
        raise GoneError
    instances = [
        each["InstanceId"]
        for each in found["AutoScalingGroups"][0]["Instances"]
        if not each["LifecycleState"].startswith("Terminat")
    ]
    _notify(client("sqs", group.region), group, instances, account, since)
    return len(instances)


def _notify(sqs: Any, group: SpotGroup, instances: list[str], account: str, since: str) -> None:
    """Send a notice for each instance. Its id is the same in each run, so that no node is drained twice."""
    if not instances:
        return
    queue = sqs.get_queue_url(QueueName=group.queue)["QueueUrl"]
    for first in range(0, len(instances), BATCH):
        entries = [
            {"Id": str(place), "MessageBody": json.dumps(notice(instance, account, group.region, since))}
            for place, instance in enumerate(instances[first : first + BATCH])
        ]
        answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
        if answer.get("Failed"):
            raise RuntimeError(f"{group.queue}: {answer['Failed'][0].get('Message', 'not sent')}")


def notice(instance: str, account: str, region: str, since: str) -> dict[str, Any]:
    """Return the notice that an instance drains because a budget is spent since that time."""
    return {
        "id": f"drain/{since}/{instance}",
        "source": SOURCE,
        "detail-type": DETAIL_TYPE,
        "account": account,
        "region": region,
        "time": since,
        "detail": {"instance-id": instance, "state": "drain"},
    }


def _is_gone(error: Exception) -> bool:
    found = getattr(error, "response", {}).get("Error", {})
    code, text = found.get("Code"), str(found.get("Message", "")).lower()
    return code == "ResourceNotFoundException" or (code == "ValidationError" and "not found" in text)


def _message(settings: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    lines = [
        f"{spent} of {limit} USD of the budget {name} are spent: {settings['at']}% or more."
        for name, (spent, limit) in sorted(result["spent"].items())
    ]
    for name, nodes in sorted(result["drained"].items()):
        which = f"its {nodes} nodes drain" if name not in settings.get("launched", {}) else "its nodes drain"
        lines.append(f"{name} launches no more spot nodes, and {which}.")
    lines += [f"{name} could not be drained: {error}" for name, error in sorted(result["failed"].items())]
    lines.append(
        "Jobs on spot nodes are asked for a checkpoint and queued again. On-demand nodes, reservations and"
        " Capacity Blocks stay. `gpufleet budget resume` undoes it."
    )
    return "\n".join(lines)
