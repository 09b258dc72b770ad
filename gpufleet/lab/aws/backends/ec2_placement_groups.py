"""EC2 placement groups: cluster, spread and partition, with tags, and protected while in use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moto.core.base_backend import BackendDict, BaseBackend

from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

STRATEGIES = ("cluster", "spread", "partition")
MAX_PARTITIONS = 7
"""Partitions per Availability Zone (EC2 user guide, placement groups)."""

_FILTERS = {
    "group-name": "GroupName",
    "group-arn": "GroupArn",
    "state": "State",
    "strategy": "Strategy",
    "spread-level": "SpreadLevel",
}


@dataclass
class PlacementGroup:
    """A placement group of one region."""

    group_id: str
    name: str
    strategy: str
    arn: str
    partitions: int | None
    spread_level: str | None


class PlacementGroupBackend(BaseBackend):  # type: ignore[misc]
    """The placement groups of one account and region, by name."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.groups: dict[str, PlacementGroup] = {}


placement_group_backends = BackendDict(PlacementGroupBackend, "ec2")


def groups_of(call: Call) -> dict[str, PlacementGroup]:
    """The caller's placement groups by name."""
    backend: PlacementGroupBackend = placement_group_backends[call.account][call.region]
    return backend.groups


def find(call: Call, *, name: str | None = None, group_id: str | None = None) -> PlacementGroup:
    """The group of that name or id; EC2's own error when there is none."""
    for group in groups_of(call).values():
        if (name and group.name == name) or (group_id and group.group_id == group_id):
            return group
    unknown = "InvalidPlacementGroup.Unknown" if name else "InvalidPlacementGroupId.NotFound"
    raise AwsError(unknown, f"The Placement Group '{name or group_id}' is unknown.")


@operation("ec2", "CreatePlacementGroup")
def create_placement_group(call: Call) -> Params:
    """Create a group; EC2's default strategy is cluster."""
    name = call.params.get("GroupName") or ec2.new_id("pg-name")
    strategy = call.params.get("Strategy") or "cluster"
    partitions = call.params.get("PartitionCount")
    level = call.params.get("SpreadLevel")
    if name in groups_of(call):
        raise AwsError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
    if strategy not in STRATEGIES:
        raise AwsError("InvalidParameterValue", f"Value ({strategy}) for parameter strategy is invalid.")
    if partitions is not None and strategy != "partition":
        raise AwsError("InvalidParameterCombination", "PartitionCount is valid only with strategy partition.")
    if partitions is not None and not 1 <= int(partitions) <= MAX_PARTITIONS:
        raise AwsError("InvalidParameterValue", f"PartitionCount must be between 1 and {MAX_PARTITIONS}.")
    if level and strategy != "spread":
        raise AwsError("InvalidParameterCombination", "SpreadLevel is valid only with strategy spread.")
    group = PlacementGroup(
        group_id=ec2.new_id("pg"),
        name=name,
        strategy=strategy,
        arn=f"arn:{call.partition}:ec2:{call.region}:{call.account}:placement-group/{name}",
        partitions=int(partitions or 2) if strategy == "partition" else None,
        spread_level=(level or "rack") if strategy == "spread" else None,
    )
    tags = ec2.tags_from(call, "placement-group")
    groups_of(call)[name] = group
    ec2.set_tags(call, group.group_id, tags)
    return {"PlacementGroup": _answer(call, group)}


@operation("ec2", "DescribePlacementGroups")
def describe_placement_groups(call: Call) -> Params:
    """List the groups by name, id or filters; unknown names and ids are errors."""
    names, ids = call.params.get("GroupNames") or [], call.params.get("GroupIds") or []
    chosen = [find(call, name=name) for name in names] + [find(call, group_id=one) for one in ids]
    if not names and not ids:
        chosen = list(groups_of(call).values())
    answers = [(group, _answer(call, group)) for group in chosen]
    filters = call.params.get("Filters") or []
    kept = [a for group, a in answers if ec2.matches(call, group.group_id, a, filters, _FILTERS)]
    return {"PlacementGroups": kept}


@operation("ec2", "DeletePlacementGroup")
def delete_placement_group(call: Call) -> Params:
    """Delete a group that holds no instance."""
    group = find(call, name=call.params["GroupName"])
    for instance in ec2.ec2_backend(call).all_instances():
        if _placed_in(instance) == group.name and instance.state != "terminated":
            message = f"The placement group '{group.name}' is in use and may not be deleted."
            raise AwsError("InvalidPlacementGroup.InUse", message)
    del groups_of(call)[group.name]
    ec2.forget_tags(call, group.group_id)
    return {}


def _placed_in(instance: Any) -> str | None:
    placement = getattr(instance, "placement", None)
    return getattr(placement, "group_name", None)


def _answer(call: Call, group: PlacementGroup) -> Params:
    answer: Params = {
        "GroupName": group.name,
        "GroupId": group.group_id,
        "GroupArn": group.arn,
        "State": "available",
        "Strategy": group.strategy,
        "Tags": ec2.tag_list(call, group.group_id),
    }
    if group.partitions is not None:
        answer["PartitionCount"] = group.partitions
    if group.spread_level is not None:
        answer["SpreadLevel"] = group.spread_level
    return answer
