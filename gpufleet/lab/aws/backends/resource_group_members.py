"""Members of resource groups with a configuration, which moto's groups lack.

Only On-Demand Capacity Reservations are members here. Source: Resource Groups API Reference, GroupResources
and ListGroupResources; EC2 User Guide, "Add a Capacity Reservation to a group".
"""

from __future__ import annotations

from typing import Any

from gpufleet.lab.aws.backends import ec2_capacity_reservations as reservations
from gpufleet.lab.aws.backends.ec2_reservation_groups import members_of
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

KIND = "AWS::EC2::CapacityReservation"


@operation("resourcegroups", "GroupResources")
def group_resources(call: Call) -> Params:
    """Add reservations to a group."""
    members, succeeded, failed = members_of(_group(call)), [], []
    for arn in call.params["ResourceArns"]:
        if not _exists(arn):
            failed.append(
                {
                    "ResourceArn": arn,
                    "ErrorMessage": "The resource does not exist, or the group does not take it.",
                    "ErrorCode": "RESOURCE_NOT_FOUND",
                }
            )
            continue
        succeeded.append(arn)
        if arn not in members:
            members.append(arn)
    return {"Succeeded": succeeded, "Failed": failed, "Pending": []}


@operation("resourcegroups", "UngroupResources")
def ungroup_resources(call: Call) -> Params:
    """Remove reservations from a group."""
    members = members_of(_group(call))
    for arn in call.params["ResourceArns"]:
        if arn in members:
            members.remove(arn)
    return {"Succeeded": call.params["ResourceArns"], "Failed": [], "Pending": []}


@operation("resourcegroups", "ListGroupResources")
def list_group_resources(call: Call) -> Params:
    """Return the members of a group."""
    found = [{"ResourceArn": arn, "ResourceType": KIND} for arn in members_of(_group(call))]
    return {"Resources": [{"Identifier": each} for each in found], "ResourceIdentifiers": found}


@operation("resourcegroups", "GetGroupConfiguration")
def get_group_configuration(call: Call) -> Params:
    """Return the configuration of a group, by its name or ARN; moto takes names only."""
    return {"GroupConfiguration": {"Configuration": _group(call).configuration or []}}


def _group(call: Call) -> Any:
    from moto.resourcegroups.models import resourcegroups_backends

    wanted = call.params.get("Group") or call.params.get("GroupName") or ""
    groups = resourcegroups_backends[call.account][call.region].groups
    if wanted not in groups:
        raise AwsError("NotFoundException", f"Cannot find group {wanted}.")
    return groups[wanted]


def _exists(arn: str) -> bool:
    parts = arn.split(":", 5)
    if len(parts) != 6 or parts[2] != "ec2" or not parts[5].startswith("capacity-reservation/"):
        return False
    held = reservations.reservation_backends[parts[4]][parts[3]].reservations
    return parts[5].partition("/")[2] in held
