"""Auto Scaling groups that launch only into a resource group of reservations: where it has room, and no more.

moto launches all instances in the first subnet. Source: EC2 Auto Scaling API Reference,
CapacityReservationSpecification (without capacity such instances fail to launch).
"""

from __future__ import annotations

import functools
from typing import Any

from gpufleet.lab.aws.backends.autoscaling_activities import record_failed_launch
from gpufleet.lab.aws.backends.ec2_reservation_groups import (
    EXCEEDED_MESSAGE,
    group_room,
    group_target_of,
    launches_only_reserved,
)


def _launch_reserved(original: Any, group: Any, count: int, tags: dict[str, str]) -> None:
    backend = group.autoscaling_backend.ec2_backend
    template = group.ec2_launch_template
    data = backend._get_template_from_args({"LaunchTemplateId": template.id}).data if template else {}
    subnets = [subnet for subnet in (group.vpc_zone_identifier or "").split(",") if subnet]
    if not subnets or group_target_of(data) is None or not launches_only_reserved(data):
        original(group, count, tags)
        return
    kind = {**data, "InstanceType": data.get("InstanceType") or group.instance_type}
    zones = {subnet: str(backend.get_subnet(subnet).availability_zone) for subnet in subnets}
    whole, missing = group.vpc_zone_identifier, count
    try:
        for subnet, zone in zones.items():
            take = min(missing, group_room(backend, kind, zone) or 0)
            if take:
                group.vpc_zone_identifier = subnet
                original(group, take, tags)
                missing -= take
    finally:
        group.vpc_zone_identifier = whole
    if missing:
        record_failed_launch(group, EXCEEDED_MESSAGE, zones)


def _wrap() -> None:
    from moto.autoscaling.models import FakeAutoScalingGroup

    original = FakeAutoScalingGroup.replace_autoscaling_group_instances
    if hasattr(original, "gpufleet_reserved"):
        return

    @functools.wraps(original)
    def launch(self: Any, count: int, tags: dict[str, str]) -> None:
        _launch_reserved(original, self, count, tags)

    launch.gpufleet_reserved = True  # type: ignore[attr-defined]
    FakeAutoScalingGroup.replace_autoscaling_group_instances = launch


_wrap()
