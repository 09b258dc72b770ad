"""The instances behind a managed node group.

EKS creates a launch template and an Auto Scaling group for each node group, both named after it, and deletes
them with it. So DescribeInstances returns the nodes, which use their placement group and reservation and have
a place in the topology.
"""

from __future__ import annotations

from typing import Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends.ec2_capacity_reservations import find as find_reservation
from gpufleet.lab.aws.backends.ec2_capacity_reservations import used
from gpufleet.lab.aws.backends.ec2_instances import target_of
from gpufleet.lab.aws.backends.ec2_reservation_groups import (
    group_room,
    group_target_of,
    launches_only_reserved,
)
from gpufleet.lab.aws.backends.operation import Call, Params
from gpufleet.lab.aws.backends.ssm_public_parameters import eks_image


def start_nodes(call: Call, cluster: Any, group: Any, data: Params) -> None:
    """Create the group's template and Auto Scaling group; `data` is the user's launch template data."""
    ec2, scaling, name = _ec2(call), _scaling(call), own_name(group)
    wanted = _wanted(call, group, data)
    template = ec2.create_launch_template(name, "", _node_data(call, cluster, group, data), {})
    scaling.create_auto_scaling_group(
        name=name,
        availability_zones=[],
        desired_capacity=0,
        max_size=group.scaling_config["maxSize"],
        min_size=_least(group, wanted),
        launch_config_name=None,
        launch_template={"LaunchTemplateId": template.id, "Version": "$Default"},
        vpc_zone_identifier=",".join(group.subnets),
        default_cooldown=None,
        health_check_period=None,
        health_check_type=None,
        load_balancers=[],
        target_group_arns=[],
        placement_group=None,
        termination_policies=[],
        tags=[],
    )
    made = scaling.autoscaling_groups[name]
    made.gpufleet_capacity_type = group.capacity_type
    made.tags = [
        {
            "ResourceId": name,
            "ResourceType": "auto-scaling-group",
            "Key": key,
            "Value": value,
            "PropagateAtLaunch": "false",
        }
        for key, value in _group_tags(cluster, group).items()
    ]
    made.set_desired_capacity(wanted)


def scale_nodes(call: Call, group: Any, data: Params) -> None:
    """Apply a change of the group's sizes."""
    scaling, wanted = _scaling(call).autoscaling_groups[own_name(group)], _wanted(call, group, data)
    scaling.max_size, scaling.min_size = group.scaling_config["maxSize"], _least(group, wanted)
    scaling.set_desired_capacity(wanted)


def roll_nodes(call: Call, cluster: Any, group: Any, data: Params) -> None:
    """Replace the nodes for a new version of the template or of Kubernetes."""
    ec2, name = _ec2(call), own_name(group)
    template = ec2.get_launch_template_by_name(name)
    version = template.create_version(_node_data(call, cluster, group, data), "")
    template.default_version_number = version.number
    scaling = _scaling(call).autoscaling_groups[name]
    scaling.set_desired_capacity(0)
    scaling.set_desired_capacity(_wanted(call, group, data))


def end_nodes(call: Call, group: Any) -> None:
    """Terminate the nodes and delete their template and group."""
    name = own_name(group)
    _scaling(call).delete_auto_scaling_group(name)
    _ec2(call).delete_launch_template(name, None)


def own_name(group: Any) -> str:
    """Return EKS's name of a node group's Auto Scaling group."""
    return f"eks-{group.nodegroup_name}-{group.uuid}"


def _group_tags(cluster: Any, group: Any) -> dict[str, str]:
    """Return EKS's own tags of an Auto Scaling group (EKS user guide, "Managed node groups concepts"): a node
    group's tags are not among them."""
    return {
        "eks:cluster-name": cluster.name,
        "eks:nodegroup-name": group.nodegroup_name,
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"k8s.io/cluster-autoscaler/{cluster.name}": "owned",
        f"kubernetes.io/cluster/{cluster.name}": "owned",
    }


def _least(group: Any, wanted: int) -> int:
    """Return the minimum of the Auto Scaling group; a reservation may have fewer nodes than that."""
    return min(int(group.scaling_config["minSize"]), wanted)


def _node_data(call: Call, cluster: Any, group: Any, data: Params) -> Params:
    types = group.instance_types or []
    owned = {
        "eks:cluster-name": cluster.name,
        "eks:nodegroup-name": group.nodegroup_name,
        f"kubernetes.io/cluster/{cluster.name}": "owned",
    }
    kept = [one for one in data.get("TagSpecifications") or [] if one["ResourceType"] != "instance"]
    given = [
        tag
        for one in data.get("TagSpecifications") or []
        if one["ResourceType"] == "instance"
        for tag in one["Tags"]
    ]
    tags = [*given, *({"Key": key, "Value": value} for key, value in owned.items())]
    return {
        **data,
        "ImageId": data.get("ImageId")
        or eks_image(call, group.version, group.ami_type, group.release_version),
        "InstanceType": data.get("InstanceType") or (types[0] if types else "t3.medium"),
        "TagSpecifications": [*kept, {"ResourceType": "instance", "Tags": tags}],
    }


def _wanted(call: Call, group: Any, data: Params) -> int:
    wanted = int(group.scaling_config["desiredSize"])
    if group_target_of(data) is not None and launches_only_reserved(data):
        backend, types = _ec2(call), group.instance_types or []
        kind = {**data, "InstanceType": data.get("InstanceType") or (types[0] if types else "t3.medium")}
        zones = {backend.get_subnet(each).availability_zone for each in group.subnets}
        room = sum(group_room(backend, kind, zone) or 0 for zone in zones)
        return min(wanted, room + _own_count(call, group))
    reservation_id = target_of(data)
    if reservation_id is None:
        return wanted
    reservation = find_reservation(call, reservation_id)
    if reservation.state(utcnow()) != "active":
        return 0
    return min(wanted, reservation.count - used(call, reservation) + _own_count(call, group))


def _own_count(call: Call, group: Any) -> int:
    scaling = _scaling(call).autoscaling_groups.get(own_name(group))
    return len(scaling.instance_states) if scaling else 0


def _ec2(call: Call) -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[call.account][call.region]


def _scaling(call: Call) -> Any:
    from moto.autoscaling.models import autoscaling_backends

    return autoscaling_backends[call.account][call.region]
