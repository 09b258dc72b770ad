"""Missing capacity of an instance type in a zone, and its effect in EC2, Auto Scaling and EKS.

EC2 rejects the launch. An Auto Scaling group uses another of its zones, and waits for capacity if there is
none. A managed node group whose first nodes do not start ends as CREATE_FAILED, with the reason among its
health issues (EKS user guide, "Amazon EKS managed node group errors": AsgInstanceLaunchFailures).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpufleet.lab.aws.faults.plan import Shortage

CODE = "InsufficientInstanceCapacity"

_current: Callable[[], Sequence[Shortage]] = tuple


def has_shortage(shortages: Sequence[Shortage], kind: str, zone: str) -> bool:
    """Return whether a type has no capacity at all in a zone, on demand."""
    return any(
        each.type == kind and each.zone in ("", zone) and each.market != "spot" and not each.left
        for each in shortages
    )


def room(
    backend: Any, kind: str, zone: str, market: str, taken: Mapping[tuple[str, str], int] | None = None
) -> int | None:
    """Return how many more instances of a type can launch in a zone; None without a shortage.

    `taken` counts instances by type and zone that are about to launch.
    """
    found = [
        max(0, each.left - _running(backend, each) - _about_to_run(taken or {}, each))
        for each in _current()
        if each.type == kind and each.zone in ("", zone) and each.market in ("", market)
    ]
    return min(found, default=None)


def _running(backend: Any, short: Shortage) -> int:
    """Return the running instances that a shortage counts."""
    return sum(
        1
        for instance in backend.all_instances()
        if instance.state in ("running", "pending")
        and instance.instance_type == short.type
        and short.zone in ("", instance._placement.zone)
        and short.market in ("", _market_of(instance))
    )


def _about_to_run(taken: Mapping[tuple[str, str], int], short: Shortage) -> int:
    return sum(
        count for (kind, zone), count in taken.items() if kind == short.type and short.zone in ("", zone)
    )


def _market_of(instance: Any) -> str:
    group = getattr(instance, "autoscaling_group", None)
    if group is None:
        return "spot" if instance.lifecycle == "spot" else "on-demand"
    return market_of_group(group)


def market_of_group(group: Any) -> str:
    """Return the market of an Auto Scaling group's instances; an EKS node group decides for its own."""
    policy = (group.mixed_instances_policy or {}).get("InstancesDistribution") or {}
    if int(policy.get("OnDemandPercentageAboveBaseCapacity", 100)) == 0:
        return "spot"
    return "spot" if vars(group).get("gpufleet_capacity_type") == "SPOT" else "on-demand"


def shortage_message(kind: str, zone: str) -> str:
    """Return EC2's message."""
    return (
        f"We currently do not have sufficient {kind} capacity"  # EC2's own text, which users search for
        f" in the Availability Zone you requested ({zone})."
    )


def install(current: Callable[[], Sequence[Shortage]]) -> None:
    """Add shortages to moto in this process; `current` returns the present ones. It can be repeated."""
    global _current
    _current = current
    from moto.autoscaling.models import FakeAutoScalingGroup
    from moto.ec2.models.instances import InstanceBackend
    from moto.eks.responses import EKSResponse

    from gpufleet.lab.aws.backends import ec2_fleets, install_service

    # First the sandbox's additions, so that these wrap them.
    for service in ("ec2", "autoscaling", "eks"):
        install_service(service)
    ec2_fleets.room = room
    _wrap(InstanceBackend, "run_instances", _launch)
    _wrap(FakeAutoScalingGroup, "replace_autoscaling_group_instances", _scale)
    _wrap(EKSResponse, "create_nodegroup", _make_group)


def launch_waiting() -> bool:
    """Launch what Auto Scaling groups wait for if capacity is back; return whether any launched."""
    if _current is tuple:
        return False
    from moto.autoscaling.models import autoscaling_backends

    waiting = [
        group
        for account in list(autoscaling_backends.values())
        for backend in list(account.values())
        for group in backend.autoscaling_groups.values()
        if vars(group).get("gpufleet_shortage")
    ]
    for group in waiting:
        group.set_desired_capacity(group.desired_capacity)
    return any(not vars(group)["gpufleet_shortage"] for group in waiting)


def _wrap(owner: type, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    if hasattr(original, "gpufleet_shortage"):
        return

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(original, self, *args, **kwargs)

    method.gpufleet_shortage = True  # type: ignore[attr-defined]
    setattr(owner, name, method)


def _launch(original: Callable[..., Any], backend: Any, *args: Any, **kwargs: Any) -> Any:
    """Wrap EC2's RunInstances."""
    from gpufleet.lab.aws.backends.operation import AwsError

    kind, zone = _kind(backend, kwargs), _zone(backend, kwargs)
    left = room(backend, kind, zone, vars(backend).get("gpufleet_market") or "on-demand")
    # EC2 launches all or none where MinCount is MaxCount.
    if left is not None and left < int(args[1] if len(args) > 1 else kwargs.get("count", 1)):
        raise AwsError(CODE, shortage_message(kind, zone))
    return original(backend, *args, **kwargs)


def _kind(backend: Any, launch: dict[str, Any]) -> str:
    template = launch.get("launch_template")
    data = backend._get_template_from_args(template).data if template else {}
    if launch.get("is_instance_type_default"):
        return str(data.get("InstanceType") or launch.get("instance_type") or "")
    return str(launch.get("instance_type") or data.get("InstanceType") or "")


def _zone(backend: Any, launch: dict[str, Any]) -> str:
    if launch.get("subnet_id"):
        return str(backend.get_subnet(launch["subnet_id"]).availability_zone)
    return str(launch.get("placement") or "")


def _scale(original: Callable[..., Any], group: Any, count: int, tags: Any) -> None:
    """Launch instances of an Auto Scaling group where there is capacity, as many as there is capacity for."""
    ec2 = group.autoscaling_backend.ec2_backend
    kind, market = str(group.instance_type or ""), market_of_group(group)
    subnets = [subnet for subnet in (group.vpc_zone_identifier or "").split(",") if subnet]
    zones = {subnet: _zone(ec2, {"subnet_id": subnet}) for subnet in subnets}
    whole, missing = group.vpc_zone_identifier, count
    group.gpufleet_shortage = ""
    ec2.gpufleet_market = market
    try:
        for subnet, zone in zones.items():
            left = room(ec2, kind, zone, market)
            take = missing if left is None else min(left, missing)
            if not take:
                continue
            group.vpc_zone_identifier = subnet
            original(group, take, tags)
            missing -= take
            if not missing:
                return
        if not zones:
            original(group, count, tags)
            return
    finally:
        group.vpc_zone_identifier, ec2.gpufleet_market = whole, ""
    if missing:
        group.gpufleet_shortage = shortage_message(kind, ", ".join(dict.fromkeys(zones.values())))
        _record(group, kind, zones)


def _record(group: Any, kind: str, zones: dict[str, str]) -> None:
    """Record a failed launch in each of the group's subnets."""
    from gpufleet.lab.aws.backends.autoscaling_activities import record_failed_launch

    for subnet, zone in zones.items():
        record_failed_launch(group, shortage_message(kind, zone), {subnet: zone})


def _make_group(original: Callable[..., Any], response: Any) -> Any:
    """Create an EKS node group, whose nodes may not start."""
    from moto.autoscaling.models import autoscaling_backends
    from moto.eks.models import eks_backends

    from gpufleet.lab.aws.backends.eks_node_instances import own_name

    answer = original(response)
    account, region = response.current_account, response.region
    scaling = autoscaling_backends[account][region].autoscaling_groups
    for cluster in eks_backends[account][region].clusters.values():
        for node_group in cluster.nodegroups.values():
            group = scaling.get(own_name(node_group))
            shortage = vars(group).get("gpufleet_shortage") if group is not None else ""
            if shortage:
                node_group.status = "CREATE_FAILED"
                issue = {
                    "code": "AsgInstanceLaunchFailures",
                    "message": f"Could not launch instances. {CODE} - {shortage}",
                    "resourceIds": [group.name],
                }
                node_group.health = {"issues": [issue]}
    return answer
