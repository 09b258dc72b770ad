"""Auto Scaling groups: settings that moto drops, launch checks, and deletion while instances run."""

from __future__ import annotations

import copy
from typing import Any

from gpufleet.lab.aws.backends.ec2_launch_rules import problems
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation

_KEPT = {
    "MaxInstanceLifetime": "max_instance_lifetime",
    "DefaultInstanceWarmup": "default_instance_warmup",
    "DesiredCapacityType": "desired_capacity_type",
    "InstanceMaintenancePolicy": "instance_maintenance_policy",
    "AvailabilityZoneDistribution": "availability_zone_distribution",
    "AvailabilityZoneImpairmentPolicy": "availability_zone_impairment_policy",
    "CapacityReservationSpecification": "capacity_reservation_specification",
    "Context": "context",
}
"""Settings that moto accepts and does not return."""

_UPDATED = {
    "CapacityRebalance": "capacity_rebalance",
    "DefaultCooldown": "default_cooldown",
    "PlacementGroup": "placement_group",
    "TerminationPolicies": "termination_policies",
}
"""Settings that moto's update ignores."""


@operation("autoscaling", "CreateAutoScalingGroup")
def create_auto_scaling_group(call: Call) -> Passthrough:
    """Create a group; reject a template that no instance can be launched from."""
    _check(call)
    answer = call.original()
    _keep(call, _KEPT)
    return answer


@operation("autoscaling", "UpdateAutoScalingGroup")
def update_auto_scaling_group(call: Call) -> Passthrough:
    """Change a group; settings that the request omits stay."""
    _check(call)
    group = find_group(call)
    sources = ("LaunchTemplate", "LaunchConfigurationName", "MixedInstancesPolicy")
    if group.mixed_instances_policy and not any(call.params.get(key) for key in sources):
        # moto would drop the policy; and it accepts a template by id or name, but keeps both.
        policy = copy.deepcopy(group.mixed_instances_policy)
        policy["LaunchTemplate"]["LaunchTemplateSpecification"].pop("LaunchTemplateName", None)
        call.response.params["MixedInstancesPolicy"] = policy
    answer = call.original()
    _keep(call, {**_KEPT, **_UPDATED})
    return answer


@operation("autoscaling", "DeleteAutoScalingGroup")
def delete_auto_scaling_group(call: Call) -> Passthrough:
    """Delete a group without instances, or with them when forced."""
    group = find_group(call)
    if group.instance_states and not call.params.get("ForceDelete"):
        message = (
            "You cannot delete an AutoScalingGroup while there are instances or pending Spot "
            "instance request(s) still in the group."
        )
        raise AwsError("ResourceInUse", message)
    return call.original()


@operation("autoscaling", "SetDesiredCapacity")
def set_desired_capacity(call: Call) -> Passthrough:
    """Change the size of a group within its limits."""
    group, wanted = find_group(call), int(call.params["DesiredCapacity"])
    for limit, side in ((group.min_size, "below min"), (group.max_size, "above max")):
        if wanted < limit if side == "below min" else wanted > limit:
            message = (
                f"New SetDesiredCapacity value {wanted} is {side} value {limit} for the AutoScalingGroup."
            )
            raise AwsError("ValidationError", message)
    return call.original()


@operation("autoscaling", "TerminateInstanceInAutoScalingGroup")
def terminate_instance(call: Call) -> Passthrough:
    """End an instance of a group; moto fails for one that is in none."""
    wanted = call.params["InstanceId"]
    states = [state for group in groups_of(call).values() for state in group.instance_states]
    if not any(state.instance.id == wanted for state in states):
        message = f"Instance Id not found - No managed instance found for instance ID: {wanted}"
        raise AwsError("ValidationError", message)
    return call.original()


@operation("autoscaling", "DisableMetricsCollection")
def disable_metrics_collection(call: Call) -> Params:
    """Stop collecting the metrics named, or all of them."""
    group, named = find_group(call), call.params.get("Metrics")
    group.metrics = [one for one in group.metrics if named and one not in named]
    return {}


@operation("autoscaling", "DescribeNotificationConfigurations")
def describe_notification_configurations(call: Call) -> Params:
    """Return none: the sandbox's groups send no notifications."""
    return {"NotificationConfigurations": []}


@operation("autoscaling", "DescribeTrafficSources")
def describe_traffic_sources(call: Call) -> Params:
    """Return none: the sandbox's groups have no traffic sources."""
    find_group(call)
    return {"TrafficSources": []}


def groups_of(call: Call) -> dict[str, Any]:
    """Return moto's groups of the caller's account and region, by name."""
    from moto.autoscaling.models import autoscaling_backends

    found: dict[str, Any] = autoscaling_backends[call.account][call.region].autoscaling_groups
    return found


def find_group(call: Call) -> Any:
    """Return moto's group of the request; Auto Scaling's own error if there is none."""
    name = call.params["AutoScalingGroupName"]
    group = groups_of(call).get(name)
    if group is None:
        message = f"AutoScalingGroup name not found - AutoScalingGroup {name!r} not found"
        raise AwsError("ValidationError", message)
    return group


def _keep(call: Call, settings: dict[str, str]) -> None:
    group = find_group(call)
    for key, attribute in settings.items():
        if call.params.get(key) is not None:
            setattr(group, attribute, call.params[key])


def _check(call: Call) -> None:
    from moto.ec2.models import ec2_backends

    given = call.params
    low, high, wanted = given.get("MinSize"), given.get("MaxSize"), given.get("DesiredCapacity")
    if low is not None and high is not None and int(low) > int(high):
        raise AwsError("ValidationError", "Max bound must be greater than or equal to min bound.")
    if wanted is not None and high is not None and int(wanted) > int(high):
        raise AwsError("ValidationError", "Desired capacity must be between min and max bounds.")
    policy = (given.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
    base = given.get("LaunchTemplate") or policy.get("LaunchTemplateSpecification")
    if not base:
        return
    backend = ec2_backends[call.account][call.region]
    for override in policy.get("Overrides") or [{}]:
        source = override.get("LaunchTemplateSpecification") or base
        data = dict(backend._get_template_from_args(source).data)
        if override.get("InstanceType"):
            data["InstanceType"] = override["InstanceType"]
        for _, message in problems(call, data):
            text = f"You must use a valid fully-formed launch template. {message}"
            raise AwsError("ValidationError", text)
