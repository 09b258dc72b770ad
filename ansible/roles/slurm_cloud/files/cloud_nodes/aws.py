"""AWS of one site: the munge key for its nodes, its instances, launches by CreateFleet, terminations."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cloud_nodes.decide import Instance, Launch
from cloud_nodes.journal import log
from cloud_nodes.settings import Group, Site

NODE_TAG = "gpufleet:slurm-node"
"""The tag with the name of an instance's node: the node reads it from the metadata service, and so does the
handler of interruption notices, from EC2."""

GROUP_TAG = "gpufleet:node-group"
"""The tag of all nodes with the name of their group."""

CloudErrors = (BotoCoreError, ClientError)

THROTTLED = frozenset(
    {"RequestLimitExceeded", "Throttling", "ThrottlingException", "InternalError", "Unavailable"}
)
"""Errors that say nothing about the launch: it is tried again in the next pass."""

NOT_FOUND = "InvalidInstanceID.NotFound"
"""Error of calls that name an instance that is gone, or that was launched moments ago (EC2 Developer Guide,
"Eventual consistency in the Amazon EC2 API")."""

PAUSES_S = (0.6, 1.2, 2.4, 4.8)
"""Pauses between attempts on new instances: those of aws-parallelcluster-node (fleet_manager.py,
_get_instances_info)."""

IDS_OF_A_CALL = 500
PARAMETERS_OF_A_CALL = 10
"""Names of one call (SSM API Reference, GetParameters)."""

FLEET_MOST = 1000
"""Instances of one instant fleet (EC2 API Reference, CreateFleet, MinTargetCapacity)."""

_ALIVE = ["pending", "running", "stopping", "stopped"]


@dataclass(frozen=True)
class LaunchResult:
    """The outcome of a launch: an instance of each node that has one, and EC2's code for the others.

    Without a code the others are tried again.
    """

    instances: Mapping[str, str]
    code: str = ""


class Ec2:
    """EC2 in the region of a site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        config = Config(retries={"mode": "standard", "max_attempts": 4}, connect_timeout=5, read_timeout=60)
        session = boto3.session.Session(region_name=site.region)
        keys: dict[str, Any] = {}
        if site.role:
            sts = session.client("sts", config=config, endpoint_url=site.endpoint or None)
            found = sts.assume_role(RoleArn=site.role, RoleSessionName="gpufleet-cloud-nodes")["Credentials"]
            keys = {
                "aws_access_key_id": found["AccessKeyId"],
                "aws_secret_access_key": found["SecretAccessKey"],
                "aws_session_token": found["SessionToken"],
            }
        where: dict[str, Any] = {"config": config, "endpoint_url": site.endpoint or None, **keys}
        self._ec2 = session.client("ec2", **where)
        self._ssm = session.client("ssm", **where)
        self._home = session.client("ssm", **{**where, "region_name": site.stopped_region or site.region})

    def stopped(self) -> frozenset[str]:
        """Return the names of the groups that a breach of the budget stopped."""
        if not self._site.stopped_parameter:
            return frozenset()
        found = self._home.get_parameter(Name=self._site.stopped_parameter)["Parameter"]["Value"]
        return frozenset(json.loads(found).get("groups", {}))

    def drained(self) -> frozenset[str]:
        """Return the names of the groups whose spot nodes a breach of the budget drains."""
        names = {each.drained_parameter: each.name for each in self._site.groups if each.drained_parameter}
        found: set[str] = set()
        for first in range(0, len(names), PARAMETERS_OF_A_CALL):
            part = sorted(names)[first : first + PARAMETERS_OF_A_CALL]
            for each in self._home.get_parameters(Names=part)["Parameters"]:
                # Without a time the group is being resumed.
                if json.loads(each["Value"]).get("since"):
                    found.add(names[each["Name"]])
        return frozenset(found)

    def share_key(self, key: str) -> bool:
        """Put the munge key where nodes read it; return whether it was another one."""
        name = self._site.munge_parameter
        if self._ssm.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"] == key:
            return False
        self._ssm.put_parameter(
            Name=name, Value=key, Type="SecureString", KeyId=self._site.munge_key_arn, Overwrite=True
        )
        return True

    def instances(self) -> list[Instance]:
        """Return the site's nodes that are not shutting down. Servers have the same tags, and no group."""
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in self._site.tags.items()]
        filters.append({"Name": "tag-key", "Values": [GROUP_TAG]})
        return list(self._matching([*filters, {"Name": "instance-state-name", "Values": _ALIVE}]))

    def terminate(self, ids: Collection[str]) -> None:
        """Terminate instances; those that are gone already do not matter."""
        for part in _parts(sorted(ids)):
            try:
                self._ec2.terminate_instances(InstanceIds=list(part))
            except ClientError as error:
                if _code(error) != NOT_FOUND:
                    raise
                if len(part) > 1:
                    for each in part:
                        self.terminate([each])

    def launch(self, launch: Launch) -> LaunchResult:
        """Launch instances and name them after the nodes. If a job needs them all, keep all or none.

        Instances that cannot be named are terminated: without a name they belong to no node.
        """
        code = ""
        nodes = list(launch.nodes)
        named: dict[str, str] = {}
        for purchase in launch.group.purchases:
            found, error = self._fleet(launch, purchase, len(nodes))
            if launch.all_or_nothing and len(found) < len(nodes):
                # EC2 launches none then. A part of them would cost money for no work.
                self._terminate_new(found)
                found = []
            given, nodes = nodes[: len(found)], nodes[len(found) :]
            made = dict(zip(given, found, strict=True))
            unnamed, code = self._name(made)
            if unnamed:
                lost = made if launch.all_or_nothing else unnamed
                self._terminate_new(list(lost.values()))
                named |= {node: made[node] for node in made.keys() - lost.keys()}
                return LaunchResult(named, code)
            named |= made
            if not nodes or error in THROTTLED:
                code = ""
                break
            code = error or "no capacity"
        return LaunchResult(named, code)

    def _name(self, instances: Mapping[str, str]) -> tuple[dict[str, str], str]:
        """Tag instances (node -> id) with their nodes; return those without a tag, and EC2's code.

        The code is empty if a later launch may succeed.
        """
        left = dict(instances)
        for pause in (0.0, *PAUSES_S):
            time.sleep(pause)
            for node, instance in list(left.items()):
                try:
                    self._ec2.create_tags(Resources=[instance], Tags=[{"Key": NODE_TAG, "Value": node}])
                except CloudErrors as error:
                    failed = error
                    code = _code(error) if isinstance(error, ClientError) else ""
                    if code and code != NOT_FOUND and code not in THROTTLED:
                        log("not named", site=self._site.site, error=str(error)[:300])
                        return left, code
                    if not code:  # no answer
                        break
                else:
                    del left[node]
            if not left:
                return {}, ""
        log("not named", site=self._site.site, instances=left, error=str(failed)[:300])
        return left, ""

    def _terminate_new(self, ids: Sequence[str]) -> None:
        """Terminate instances that were just launched: EC2 may not find them at first."""
        for pause in PAUSES_S if ids else ():
            try:
                for part in _parts(ids):
                    self._ec2.terminate_instances(InstanceIds=list(part))
            except ClientError as error:
                if _code(error) != NOT_FOUND:
                    raise
                time.sleep(pause)
            else:
                return
        self.terminate(ids)

    def addresses(self, instances: Mapping[str, str]) -> dict[str, str]:
        """Return node -> address of launched instances (node -> id) that EC2 lists already."""
        found: dict[str, str] = {}
        nodes = {instance: node for node, instance in instances.items()}
        for part in _parts(sorted(nodes)):
            # By filter: an id that is not listed yet would fail the call.
            for each in self._matching([{"Name": "instance-id", "Values": list(part)}]):
                if each.address:
                    found[nodes[each.id]] = each.address
        return found

    def _fleet(self, launch: Launch, purchase: str, count: int) -> tuple[list[str], str]:
        """Launch an instant fleet; return its instances, and EC2's first error or an empty string.

        The launch template has the tags of the instances.
        """
        try:
            answer = self._ec2.create_fleet(
                Type="instant",
                ClientToken=str(uuid.uuid4()),
                LaunchTemplateConfigs=[_template(launch.group)],
                TargetCapacitySpecification={
                    "TotalTargetCapacity": min(count, FLEET_MOST),
                    "DefaultTargetCapacityType": purchase,
                },
                **_options(launch, purchase, count),
            )
        except ClientError as error:
            return [], _code(error)
        ids = [each for part in answer.get("Instances", ()) for each in part["InstanceIds"]]
        errors = [each.get("ErrorCode", "") for each in answer.get("Errors", ())]
        return ids, next((each for each in errors if each), "")

    def _matching(self, filters: Sequence[Mapping[str, Any]]) -> Iterator[Instance]:
        for page in self._ec2.get_paginator("describe_instances").paginate(Filters=filters):
            for reservation in page["Reservations"]:
                for each in reservation["Instances"]:
                    tags = {tag["Key"]: tag["Value"] for tag in each.get("Tags", ())}
                    yield Instance(
                        id=each["InstanceId"],
                        site=self._site.site,
                        node=tags.get(NODE_TAG, ""),
                        address=each.get("PrivateIpAddress", ""),
                        launched=each["LaunchTime"].timestamp(),
                        spot=each.get("InstanceLifecycle") == "spot",
                    )


def _template(group: Group) -> dict[str, Any]:
    overrides = [
        {"InstanceType": kind, "SubnetId": subnet}
        for kind in group.instance_types
        for subnet in group.subnets
    ]
    if group.max_price:
        overrides = [{**each, "MaxPrice": group.max_price} for each in overrides]
    return {
        "LaunchTemplateSpecification": {
            "LaunchTemplateId": group.launch_template,
            "Version": group.version,
        },
        "Overrides": [{**each, "Priority": float(place)} for place, each in enumerate(overrides)],
    }


def _options(launch: Launch, purchase: str, count: int) -> dict[str, Any]:
    """Return how instances are chosen: a job's nodes of one type in one zone, where their traffic stays."""
    together: dict[str, Any] = {}
    if launch.all_or_nothing:
        together = {
            "SingleInstanceType": True,
            "SingleAvailabilityZone": True,
            "MinTargetCapacity": min(count, FLEET_MOST),
        }
    if purchase == "spot":
        return {"SpotOptions": {"AllocationStrategy": "capacity-optimized-prioritized", **together}}
    if purchase == "capacity-block":
        return {}
    return {"OnDemandOptions": {"AllocationStrategy": "prioritized", **together}}


def _code(error: ClientError) -> str:
    code: str = error.response["Error"]["Code"]
    return code


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(ids), IDS_OF_A_CALL):
        yield ids[first : first + IDS_OF_A_CALL]
