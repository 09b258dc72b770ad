"""Stop the growth of an environment's node groups when a budget is spent. Nothing is terminated.

A message of the budgets' topic starts it. It trusts no message: it asks AWS Budgets for the spending of the
environment, and of each site and team with a cap. Below the limits it does nothing. Otherwise the maximum
size of each group of a spent budget becomes its present size. Auto Scaling then launches no further node;
running nodes stay, and failed ones are replaced.

An EKS node group cannot have the maximum 0 (EKS API Reference, NodegroupScalingConfig). One without nodes
gets the maximum 1, and the process `Launch` of its Auto Scaling group is suspended.

Nodes that the Slurm of a rack site launches belong to no group of AWS: its controllers read the parameter
before they launch, and launch none of a group in it.

Neither do nodes that Karpenter launches. For each of their groups there is a policy that denies launches,
and the function attaches it to Karpenter's role.

The parameter keeps the maximum that each group had, and what it has now. It is written before a group
changes, so that a run that ends halfway can be undone. `gpufleet budget resume` undoes it.
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
"""The attribute of this function's own messages, which its subscription leaves out."""

Clients = Callable[[str, str], Any]
"""Service and region -> boto3 client."""


@dataclass(frozen=True)
class Group:
    """A node group: its name in the plan, its region, its names in AWS, and its sizes."""

    name: str
    region: str
    group: str
    cluster: str
    scaling_group: str
    least: int
    desired: int
    most: int

    @property
    def limit(self) -> int:
        """The maximum that lets it grow no more."""
        return max(self.desired, 1) if self.cluster else self.desired


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Answer a message of the topic. Raises RuntimeError if a group could not be stopped: Lambda retries."""
    import boto3

    del event, context
    settings = json.loads(Path(__file__).with_name(SETTINGS).read_text(encoding="utf-8"))
    clients: dict[tuple[str, str], Any] = {}

    def client(service: str, region: str) -> Any:
        if (service, region) not in clients:
            clients[service, region] = boto3.client(service, region_name=region)
        return clients[service, region]

    result = stop(settings, os.environ["TOPIC_ARN"], client, dt.datetime.now(dt.UTC))
    log.info(json.dumps(result))
    if result["failed"]:
        raise RuntimeError(f"not stopped: {', '.join(sorted(result['failed']))}")
    return result


def stop(settings: Mapping[str, Any], topic: str, client: Clients, now: dt.datetime) -> dict[str, Any]:
    """Stop the growth of the groups of each budget in `settings` that is spent.

    Returns `spent` (budget -> USD spent and its limit, of those that are spent), `stopped` (group -> its
    maximum before and now) and `failed` (group, site or budget -> error). Groups that cannot grow are in
    none.
    """
    _, partition, _, home, account, _ = topic.split(":", 5)
    stopped: dict[str, dict[str, int]] = {}
    failed: dict[str, str] = {}
    spent: dict[str, list[str]] = {}
    wanted: set[str] = set()
    for name, groups in settings["budgets"].items():
        try:
            found = client("budgets", home).describe_budget(AccountId=account, BudgetName=name)["Budget"]
        except Exception as error:
            failed[name] = str(error)
            continue
        amounts = found["CalculatedSpend"]["ActualSpend"]["Amount"], found["BudgetLimit"]["Amount"]
        if Decimal(amounts[0]) >= Decimal(amounts[1]):
            spent[name] = list(amounts)
            wanted.update(groups)
    result = {"spent": spent, "stopped": stopped, "failed": failed}
    if not wanted:
        return result
    growing = [
        group
        for group in _groups(settings, wanted, client, failed)
        if group.most > group.limit or _empty(group)
    ]
    launched = [
        Group(name, "", "", "", "", 0, 0, most)
        for name, most in settings.get("launched", {}).items()
        if name in wanted
    ]
    pools = {name: pool for name, pool in settings.get("pools", {}).items() if name in wanted}
    denied = [Group(name, "", "", "", "", 0, 0, pool["most"]) for name, pool in pools.items()]
    recorded = [*growing, *launched, *denied]
    known = _remember(client("ssm", home), settings["parameter"], recorded, now)
    for each in denied:
        role, policy = pools[each.name]["role"], pools[each.name]["policy"]
        try:
            client("iam", home).attach_role_policy(
                RoleName=role, PolicyArn=f"arn:{partition}:iam::{account}:policy/{policy}"
            )
        except Exception as error:
            failed[each.name] = str(error)
    stopped.update(
        {
            each.name: {"before": each.most, "now": 0}
            for each in (*launched, *denied)
            if each.name not in known and each.name not in failed
        }
    )
    for group in growing:
        try:
            _stop(group, client)
        except Exception as error:
            failed[group.name] = str(error)
            continue
        if group.most > group.limit:
            stopped[group.name] = {"before": group.most, "now": group.limit}
    if stopped or failed:
        client("sns", home).publish(
            TopicArn=topic,
            Subject=f"{settings['budget']}: node groups stopped"[:100],
            Message=_message(settings, result),
            MessageAttributes={OWN_MESSAGE: {"DataType": "String", "StringValue": "stop-scale-out"}},
        )
    return result


def _empty(group: Group) -> bool:
    return bool(group.cluster) and group.desired == 0


def _groups(
    settings: Mapping[str, Any], wanted: set[str], client: Clients, failed: dict[str, str]
) -> Iterator[Group]:
    """Yield the groups of the environment with these names."""
    for site in settings["sites"]:
        try:
            listed = list(_of_site(site, settings["tags"], client))
        except Exception as error:
            failed[site["name"]] = str(error)
            continue
        yield from (group for group in listed if group.name in wanted)


def _of_site(site: Mapping[str, str], tags: Mapping[str, str], client: Clients) -> Iterator[Group]:
    region, cluster = site["region"], site["cluster"]
    if not cluster:
        pages = client("autoscaling", region).get_paginator("describe_auto_scaling_groups")
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
        for page in pages.paginate(Filters=filters):
            for each in page["AutoScalingGroups"]:
                named = {tag["Key"]: tag["Value"] for tag in each["Tags"]}
                name = each["AutoScalingGroupName"]
                sizes = each["MinSize"], each["DesiredCapacity"], each["MaxSize"]
                yield Group(named.get("Name", ""), region, name, "", name, *sizes)
        return
    eks = client("eks", region)
    for page in eks.get_paginator("list_nodegroups").paginate(clusterName=cluster):
        for name in page["nodegroups"]:
            each = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
            named = each.get("tags") or {}
            if any(named.get(key) != value for key, value in tags.items()):
                continue
            scaling = each["scalingConfig"]
            sizes = scaling["minSize"], scaling["desiredSize"], scaling["maxSize"]
            own = each["resources"]["autoScalingGroups"][0]["name"]
            yield Group(named.get("Name", ""), region, name, cluster, own, *sizes)


def _remember(ssm: Any, parameter: str, groups: list[Group], now: dt.datetime) -> dict[str, list[int]]:
    """Write the groups into the parameter: the maximum before, the maximum now, and the size. The maximum
    before of one that is already there stays. Returns those that were there."""
    kept = json.loads(ssm.get_parameter(Name=parameter)["Parameter"]["Value"])
    known = kept.get("groups", {})
    stopped = known | {
        group.name: [known.get(group.name, [group.most])[0], group.limit, group.desired] for group in groups
    }
    if stopped != known:
        value = {"since": kept.get("since") or now.isoformat(timespec="seconds"), "groups": stopped}
        # A standard parameter holds 4 KB: some eighty groups. Above, it becomes an advanced one.
        ssm.put_parameter(
            Name=parameter,
            Value=json.dumps(value, separators=(",", ":")),
            Type="String",
            Overwrite=True,
            Tier="Intelligent-Tiering",
        )
    return dict(known)


def _stop(group: Group, client: Clients) -> None:
    if not group.cluster:
        client("autoscaling", group.region).update_auto_scaling_group(
            AutoScalingGroupName=group.group, MaxSize=group.limit
        )
        return
    if _empty(group):
        client("autoscaling", group.region).suspend_processes(
            AutoScalingGroupName=group.scaling_group, ScalingProcesses=["Launch"]
        )
    if group.most > group.limit:
        # Without the desired size, which an autoscaler may change meanwhile.
        client("eks", group.region).update_nodegroup_config(
            clusterName=group.cluster,
            nodegroupName=group.group,
            scalingConfig={"minSize": group.least, "maxSize": group.limit},
        )


def _message(settings: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    lines = [
        f"{spent} of {limit} USD of the budget {name} are spent."
        for name, (spent, limit) in sorted(result["spent"].items())
    ]
    lines += [
        f"{name} grows no more: its maximum was {sizes['before']} nodes and is {sizes['now']}."
        for name, sizes in sorted(result["stopped"].items())
    ]
    lines += [f"{name} could not be stopped: {error}" for name, error in sorted(result["failed"].items())]
    lines.append("Running nodes stay. `gpufleet budget resume` lets the groups grow again.")
    return "\n".join(lines)
