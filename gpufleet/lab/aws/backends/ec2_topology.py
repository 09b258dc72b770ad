"""DescribeInstanceTopology: which instances are close to each other in the network.

The emulated network has three layers, as in EC2: all instances of a zone share the top node, those of one
cluster placement group or Capacity Block share the middle one, and every `INSTANCES_PER_LEAF` of them, in
order of launch, share the lowest. Types with four layers share one more below the top.
"""

from __future__ import annotations

import hashlib
from typing import Any

from gpufleet.catalog.network_layers import network_layers
from gpufleet.lab.aws.backends import ec2_placement_groups as placement_groups
from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends.ec2_capacity_reservations import reservations_of
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

INSTANCES_PER_LEAF = 4

_FILTERS = {
    "instance-type": "InstanceType",
    "availability-zone": "AvailabilityZone",
    "zone-id": "ZoneId",
    "group-name": "GroupName",
}


@operation("ec2", "DescribeInstanceTopology")
def describe_instance_topology(call: Call) -> Params:
    """The network nodes above each running instance of a type that has a topology."""
    ids, groups = call.params.get("InstanceIds") or [], call.params.get("GroupNames") or []
    for name in groups:
        placement_groups.find(call, name=name)
    running = [i for i in ec2.ec2_backend(call).all_instances() if i.state == "running" and _layers(call, i)]
    known = {instance.id for instance in running}
    for one in ids:
        if one not in known:
            raise AwsError("InvalidInstanceID.NotFound", f"The instance ID '{one}' does not exist")
    placed: dict[str, int] = {}
    answers = []
    for instance in running:
        domain = _domain(call, instance)
        place = placed[domain] = placed.get(domain, -1) + 1
        answer = _answer(call, instance, domain, place)
        if (not ids or instance.id in ids) and (not groups or answer.get("GroupName") in groups):
            answers.append((instance, answer))
    filters = call.params.get("Filters") or []
    kept = [a for i, a in answers if ec2.matches(call, i.id, a, filters, _FILTERS)]
    items, token = ec2.page(call, kept, default=20)
    return {"Instances": items, "NextToken": token}


def _layers(call: Call, instance: Any) -> int:
    return network_layers(instance.instance_type, call.region)


def _domain(call: Call, instance: Any) -> str:
    reservation = reservations_of(call).get(getattr(instance, "capacity_reservation_id", None) or "")
    block = reservation.block_id if reservation else None
    group = getattr(instance.placement, "group_name", None)
    return f"{instance.placement.zone} {block or group or 'shared'}"


def _answer(call: Call, instance: Any, domain: str, place: int) -> Params:
    zone = next(z for z in ec2.ec2_backend(call).zones[call.region] if z.name == instance.placement.zone)
    leaf = f"{domain} {place // INSTANCES_PER_LEAF}"
    answer: Params = {
        "InstanceId": instance.id,
        "InstanceType": instance.instance_type,
        "NetworkNodes": [
            _node(zone.zone_id),
            *([_node(f"{zone.zone_id} below")] if _layers(call, instance) == 4 else []),
            _node(domain),
            _node(leaf),
        ],
        "AvailabilityZone": zone.name,
        "ZoneId": zone.zone_id,
    }
    reservation = reservations_of(call).get(getattr(instance, "capacity_reservation_id", None) or "")
    optional = {
        "GroupName": getattr(instance.placement, "group_name", None),
        "CapacityBlockId": reservation.block_id if reservation else None,
    }
    return answer | {key: value for key, value in optional.items() if value}


def _node(facts: str) -> str:
    return f"nn-{hashlib.sha256(facts.encode()).hexdigest()[:17]}"
