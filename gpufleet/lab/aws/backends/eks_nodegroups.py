"""EKS managed node groups: launch templates, Capacity Blocks, updates.

Sources of the checks: EKS user guide, "Customize managed nodes with launch templates" (what a template must
not contain, and what an image of its own excludes) and "Create a managed node group with Capacity Blocks
for ML".
"""

from __future__ import annotations

import re
from typing import Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends import eks_access
from gpufleet.lab.aws.backends import eks_node_instances as nodes
from gpufleet.lab.aws.backends import eks_support as eks
from gpufleet.lab.aws.backends.ec2_launch_rules import problems
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation

_BAD_REQUEST = "InvalidParameterException"


@operation("eks", "CreateNodegroup")
def create_nodegroup(call: Call) -> Passthrough:
    """Create a node group; it is ACTIVE from the next request on."""
    given, cluster = call.params, eks.cluster_of(call)
    scaling = {"minSize": 1, "maxSize": 2, "desiredSize": 2, **(given.get("scalingConfig") or {})}
    _check_scaling(scaling)
    capacity = given.get("capacityType") or "ON_DEMAND"
    template = given.get("launchTemplate")
    data = _template_data(call, template) if template else {}
    _check_template(call, data, capacity, given)
    _check_image(data, given)
    version = given.get("version") or cluster.version
    _check_release(version, given)
    answer = call.original()
    group = answer.result["nodegroup"]
    group.scaling_config = scaling
    group.capacity_type = capacity
    group.version = version
    group.release_version = data.get("ImageId") or given.get("releaseVersion") or newest_release(version)
    group.health = {"issues": []}
    group.update_config = given.get("updateConfig") or {"maxUnavailable": 1}
    group.node_repair_config = given.get("nodeRepairConfig") or {"enabled": False}
    group.ami_type = "CUSTOM" if data.get("ImageId") else given.get("amiType") or "AL2023_x86_64_STANDARD"
    group.disk_size = None if template else int(given.get("diskSize") or 20)
    group.instance_types = given.get("instanceTypes") or (None if data.get("InstanceType") else ["t3.medium"])
    group.remote_access = given.get("remoteAccess")
    group.resources = {"autoScalingGroups": [{"name": nodes.own_name(group)}]}
    if template:
        group.launch_template = _named(call, template)
    mode = (vars(cluster).get("access_config") or {}).get("authenticationMode", "CONFIG_MAP")
    if mode != "CONFIG_MAP":
        eks_access.admit(call, cluster, given["nodeRole"], "EC2_LINUX")
    nodes.start_nodes(call, cluster, group, data)
    return answer


@operation("eks", "UpdateNodegroupConfig")
def update_nodegroup_config(call: Call) -> Params:
    """Change scaling, labels, taints or the update and repair settings."""
    given, group = call.params, _find(call)
    if given.get("scalingConfig"):
        _check_scaling({**group.scaling_config, **given["scalingConfig"]})
    call.original()
    if given.get("scalingConfig"):
        nodes.scale_nodes(call, group, _group_data(call, group))
    kinds = {"scalingConfig": ("MinSize", "MaxSize", "DesiredSize")}
    params: Params = {
        name: (given.get(key) or {}).get(name[0].lower() + name[1:])
        for key, names in kinds.items()
        for name in names
    }
    return {"update": eks.record_update(eks.cluster_of(call), "ConfigUpdate", params, group.nodegroup_name)}


@operation("eks", "UpdateNodegroupVersion")
def update_nodegroup_version(call: Call) -> Params:
    """Roll the nodes to another Kubernetes, AMI or launch template version."""
    given, cluster, group = call.params, eks.cluster_of(call), _find(call)
    template = given.get("launchTemplate")
    if template:
        if not group.launch_template:
            message = "You cannot specify a launch template: the node group was created without one."
            raise AwsError(_BAD_REQUEST, message)
        named = _named(call, template)
        if named["id"] != group.launch_template["id"]:
            raise AwsError(
                _BAD_REQUEST, "A node group keeps its launch template: only the version may change."
            )
        data = _template_data(call, template)
        _check_template(call, data, group.capacity_type, {"subnets": group.subnets})
        _check_image(data, given)
        if bool(data.get("ImageId")) != (group.ami_type == "CUSTOM"):
            message = (
                "A node group cannot change between an image of its launch template and one of EKS: create a"
                " new node group."
            )
            raise AwsError(_BAD_REQUEST, message)
        group.launch_template = named
    if given.get("version"):
        if float(given["version"].partition(".")[2]) > float(cluster.version.partition(".")[2]):
            message = f"Nodegroup Kubernetes version {given['version']} is newer than the cluster's."
            raise AwsError(_BAD_REQUEST, message)
        group.version = given["version"]
    elif not template:
        group.version = cluster.version
    _check_release(group.version, given)
    # Whatever the update is for: without a release, EKS takes the newest (API Reference).
    own = _group_data(call, group).get("ImageId")
    group.release_version = own or given.get("releaseVersion") or newest_release(group.version)
    group.modified_at = utcnow()
    nodes.roll_nodes(call, cluster, group, _group_data(call, group))
    params = {
        "Version": group.version,
        "ReleaseVersion": group.release_version,
        "LaunchTemplateVersion": (group.launch_template or {}).get("version") if template else None,
    }
    return {"update": eks.record_update(cluster, "VersionUpdate", params, group.nodegroup_name)}


@operation("eks", "DeleteNodegroup")
def delete_nodegroup(call: Call) -> Passthrough:
    """Delete a node group with its instances."""
    group = _find(call)
    answer = call.original()
    nodes.end_nodes(call, group)
    return answer


def newest_release(version: str) -> str:
    """Return the newest release of EKS's images for a version of Kubernetes; a fictitious one."""
    return f"{version}.0-20261101"


def _find(call: Call) -> Any:
    name = call.params["nodegroupName"]
    group = eks.cluster_of(call).nodegroups.get(name)
    if group is None:
        raise AwsError("ResourceNotFoundException", f"No node group found for name: {name}.")
    return group


def _check_scaling(scaling: Params) -> None:
    low, wanted, high = scaling["minSize"], scaling["desiredSize"], scaling["maxSize"]
    if high < 1 or low < 0:
        raise AwsError(_BAD_REQUEST, "Minimum capacity must be at least 0 and maximum capacity at least 1.")
    if wanted < low:
        raise AwsError(_BAD_REQUEST, f"Minimum capacity {low} can't be greater than desired size {wanted}")
    if wanted > high:
        raise AwsError(_BAD_REQUEST, f"Desired capacity {wanted} can't be greater than max size {high}")


def _ec2(call: Call) -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[call.account][call.region]


def _template(call: Call, wanted: Params) -> Any:
    backend = _ec2(call)
    if bool(wanted.get("id")) == bool(wanted.get("name")):
        raise AwsError(_BAD_REQUEST, "Specify either the launch template's id or its name.")
    template_id = wanted.get("id") or backend.launch_template_name_to_ids.get(wanted["name"])
    template = backend.launch_templates.get(template_id)
    if template is None:
        raise AwsError(_BAD_REQUEST, f"Launch template {wanted.get('id') or wanted.get('name')} not found.")
    return template


def _named(call: Call, wanted: Params) -> Params:
    template = _template(call, wanted)
    version = template.get_version(wanted.get("version") or "$Default").number
    return {"id": template.id, "name": template.name, "version": str(version)}


def _template_data(call: Call, wanted: Params) -> Params:
    data: Params = _template(call, wanted).get_version(wanted.get("version") or "$Default").data
    return data


def _group_data(call: Call, group: Any) -> Params:
    template = group.launch_template
    if not template:
        return {}
    return _template_data(call, {"id": template["id"], "version": template["version"]})


def _check_template(call: Call, data: Params, capacity: str, given: Params) -> None:
    if data.get("InstanceType") and given.get("instanceTypes"):
        message = "You cannot specify instance types in both the launch template and the request."
        raise AwsError(_BAD_REQUEST, message)
    if data.get("IamInstanceProfile"):
        raise AwsError(_BAD_REQUEST, "IAM instance profile is not allowed in the launch template.")
    if any(one.get("SubnetId") for one in data.get("NetworkInterfaces") or []):
        raise AwsError(_BAD_REQUEST, "Network interfaces of the launch template may not name subnets.")
    market = (data.get("InstanceMarketOptions") or {}).get("MarketType")
    if (capacity == "CAPACITY_BLOCK") != (market == "capacity-block"):
        message = "Capacity type CAPACITY_BLOCK needs market type capacity-block, and the other way round."
        raise AwsError(_BAD_REQUEST, message)
    if market and market != "capacity-block":
        raise AwsError(_BAD_REQUEST, f"Market type {market} is not allowed in the launch template.")
    if capacity == "CAPACITY_BLOCK" and not data.get("InstanceType"):
        raise AwsError(_BAD_REQUEST, "With CAPACITY_BLOCK the launch template must name the instance type.")
    types = given.get("instanceTypes") or [None]
    for instance_type in types:
        launch = {**data, "InstanceType": instance_type or data.get("InstanceType")}
        for _, message in problems(call, launch, _only_zone(call, given)):
            raise AwsError(_BAD_REQUEST, message)


def _check_image(data: Params, given: Params) -> None:
    """Reject what EKS does not take for an image of the launch template ("Limits and conditions when
    specifying an AMI ID")."""
    if data.get("ImageId"):
        if (given.get("amiType") or "CUSTOM") != "CUSTOM":
            message = (
                "You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch"
                " template."
            )
            raise AwsError(_BAD_REQUEST, message)
        if given.get("version") or given.get("releaseVersion"):
            message = (
                "You cannot specify a kubernetes version to use when specifying an image id to use within the"
                " launch template."
            )
            raise AwsError(_BAD_REQUEST, message)
    elif given.get("amiType") == "CUSTOM":
        message = "AMI Type CUSTOM needs an image id in the launch template."
        raise AwsError(_BAD_REQUEST, message)


def _check_release(version: str, given: Params) -> None:
    release = given.get("releaseVersion")
    if release and not re.fullmatch(rf"{re.escape(version)}\.\d+-\d{{8}}", release):
        message = f"Requested release version {release} is not valid for Kubernetes version {version}."
        raise AwsError(_BAD_REQUEST, message)


def _only_zone(call: Call, given: Params) -> str | None:
    found = {subnet.id: subnet for zone in _ec2(call).subnets.values() for subnet in zone.values()}
    missing = [one for one in given.get("subnets") or [] if one not in found]
    if missing:
        raise AwsError(_BAD_REQUEST, f"The subnet ID '{missing[0]}' does not exist")
    zones = {found[one].availability_zone for one in given.get("subnets") or []}
    return zones.pop() if len(zones) == 1 else None
