"""Node groups of the fleet file from EKS node groups and Auto Scaling groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from gpufleet.adopt.account import Facts, RegionFacts, is_image_id, scaling_template, tags_of
from gpufleet.adopt.remarks import AdoptedSite
from gpufleet.catalog import Catalog, efa_layout
from gpufleet.kinds import GP3_IOPS, GP3_MB_S, NODE_VOLUME_GIB
from gpufleet.plan.marks import LABEL_PREFIX, TAG_PREFIX
from gpufleet.plan.names import FALLBACK_SUFFIX

_ROOT = {"size": f"{NODE_VOLUME_GIB} GiB", "iops": GP3_IOPS, "throughput": GP3_MB_S}
_WORKLOADS = ("training", "inference", "batch", "interactive")
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_DEFAULT_TAINTS = ("nvidia.com/gpu", "aws.amazon.com/neuron")


def eks_group(group: Facts, region: RegionFacts, catalog: Catalog, site: AdoptedSite) -> dict[str, Any]:
    """Return the fleet file's form of an EKS node group; what it cannot say becomes a remark."""
    template = region.template(group.get("launchTemplate"))
    types = eks_types(group, region)
    scaling = group["scalingConfig"]
    sizes = {"min": scaling["minSize"], "max": scaling["maxSize"], "desired": scaling["desiredSize"]}
    name = group_name(group["nodegroupName"], tags_of(group), group["clusterName"])
    _remark_missing_types(name, types, template, (), site)
    made = _common(name, types, group.get("subnets") or (), template, tags_of(group), region, catalog, site)
    made["capacity"] = _capacity(name, group.get("capacityType") == "SPOT", sizes, template, region, site)
    labels = {
        key: value
        for key, value in (group.get("labels") or {}).items()
        if not key.startswith((LABEL_PREFIX, "eks.amazonaws.com/"))
    }
    if labels:
        made["labels"] = labels
    taints = [
        {"key": each["key"], "value": each.get("value", ""), "effect": _EFFECTS[each["effect"]]}
        for each in group.get("taints") or ()
        if not (each["key"] in _DEFAULT_TAINTS and each["effect"] == "NO_SCHEDULE")
    ]
    if taints:
        made["taints"] = taints
    if group.get("amiType", "CUSTOM") != "CUSTOM":
        site.remark(
            name,
            f"EKS chooses its image ({group['amiType']}, release {group.get('releaseVersion', 'unknown')});"
            " the fleet has a launch template with the image of its channel: nodes are replaced once",
        )
    return made


def scaling_group(group: Facts, region: RegionFacts, catalog: Catalog, site: AdoptedSite) -> dict[str, Any]:
    """Return the fleet file's form of an Auto Scaling group outside of EKS."""
    template = region.template(scaling_template(group))
    policy = group.get("MixedInstancesPolicy") or {}
    overrides = (policy.get("LaunchTemplate") or {}).get("Overrides") or ()
    types = [each["InstanceType"] for each in overrides if each.get("InstanceType")]
    types = types or _template_types(template)
    distribution = policy.get("InstancesDistribution") or {}
    spot = bool(policy) and distribution.get("OnDemandPercentageAboveBaseCapacity", 100) == 0
    sizes = {"min": group["MinSize"], "max": group["MaxSize"], "desired": group["DesiredCapacity"]}
    name = group_name(group["AutoScalingGroupName"], tags_of(group), "")
    subnets = [each for each in (group.get("VPCZoneIdentifier") or "").split(",") if each]
    configuration = group.get("LaunchConfigurationName")
    if configuration:
        site.remark(
            name,
            f"its launch configuration {configuration} is not read: write its instance type as"
            " `instance_types` of the group, and its image and root volume if they are not the fleet's",
        )
    else:
        _remark_missing_types(name, types, template, overrides, site)
    made = _common(name, types, subnets, template, tags_of(group), region, catalog, site)
    made["capacity"] = _capacity(name, spot, sizes, template, region, site)
    return made


def eks_types(group: Facts, region: RegionFacts) -> list[str]:
    """Return the instance types of an EKS node group, of its own or of its launch template."""
    return list(group.get("instanceTypes") or ()) or _template_types(
        region.template(group.get("launchTemplate"))
    )


def _template_types(template: Facts) -> list[str]:
    return [template["InstanceType"]] if template.get("InstanceType") else []


def _remark_missing_types(
    name: str, types: list[str], template: Facts, overrides: Iterable[Facts], site: AdoptedSite
) -> None:
    """Add a remark to a group whose instance types AWS chooses by attributes, or that names none."""
    if types:
        return
    by_attributes = any(each.get("InstanceRequirements") for each in (template, *overrides))
    what = "AWS chooses its instance types by attributes" if by_attributes else "it names no instance type"
    site.remark(
        name,
        f"{what}: write those that it may start as `instance_types` of the group, the preferred one first",
    )


def merged(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups, with the on-demand part of a spot group (`<name>-fallback`) as its `on_shortage`."""
    found = {group["name"]: group for group in groups}
    for name in list(found):
        main = found.get(name.removesuffix(FALLBACK_SUFFIX))
        if name.endswith(FALLBACK_SUFFIX) and main is not None and "spot" in main["capacity"]:
            main["capacity"]["spot"]["on_shortage"] = ["other-zone", "other-type", "on-demand"]
            del found[name]
    return list(found.values())


def group_name(name: str, tags: Mapping[str, str], cluster: str) -> str:
    """Return a name that the fleet file takes, from the group's tag or its name in AWS."""
    tagged = tags.get(f"{TAG_PREFIX}node-group")
    if tagged:
        return f"{tagged}{FALLBACK_SUFFIX}" if FALLBACK_SUFFIX in name else tagged
    plain = name.removeprefix(f"{cluster}-") if cluster else name
    cleaned = re.sub(r"[^a-z0-9-]+", "-", plain.lower()).strip("-")[:24].strip("-")
    return cleaned if cleaned[:1].isalpha() else f"g-{cleaned}".rstrip("-")


def _common(
    name: str,
    types: list[str],
    subnets: Iterable[str],
    template: Facts,
    tags: Mapping[str, str],
    region: RegionFacts,
    catalog: Catalog,
    site: AdoptedSite,
) -> dict[str, Any]:
    """Return what groups of both kinds have."""
    zones = {each["SubnetId"]: each["AvailabilityZone"] for each in region.subnets}
    own = sorted({zones[each] for each in subnets if each in zones})
    made: dict[str, Any] = {"name": name, "instance_types": types, "capacity": {}}
    if own and own != site.fields["zones"]:
        made["zones"] = own
    interfaces = template.get("NetworkInterfaces") or ()
    efa = [each for each in interfaces if each.get("InterfaceType") in ("efa", "efa-only")]
    if efa:
        made["network"] = "efa"
        item = catalog.instances.get(types[0]) if types else None
        planned = len(efa_layout(item)) if item is not None and item.efa else 0
        if planned and len(interfaces) != planned:
            site.remark(
                name,
                f"its launch template has {len(interfaces)} network interfaces; {types[0]} has {planned} with"
                " EFA, and the fleet makes all of them",
            )
    if efa or (template.get("Placement") or {}).get("GroupName"):
        made["placement"] = "cluster" if (template.get("Placement") or {}).get("GroupName") else "none"
    workload = tags.get(f"{TAG_PREFIX}workload")
    if workload in _WORKLOADS:
        made["workload"] = workload
    if tags.get(f"{TAG_PREFIX}team"):
        made["team"] = tags[f"{TAG_PREFIX}team"]
    volume: Facts = next(
        (each["Ebs"] for each in template.get("BlockDeviceMappings") or () if each.get("Ebs")), {}
    )
    root = {
        "size": f"{volume.get('VolumeSize') or NODE_VOLUME_GIB} GiB",
        "iops": volume.get("Iops") or GP3_IOPS,
        "throughput": volume.get("Throughput") or GP3_MB_S,
    }
    if root != _ROOT:
        made["volume"] = root
    if volume.get("VolumeType", "gp3") != "gp3":
        site.remark(name, f"its root volumes are {volume['VolumeType']}; the fleet makes gp3")
    if any(each.get("AssociatePublicIpAddress") for each in interfaces):
        made["public_ip"] = True
    _judge(name, template, volume, site)
    _image(name, template, made, region, site)
    return made


def _judge(name: str, template: Facts, volume: Facts, site: AdoptedSite) -> None:
    if template and (template.get("MetadataOptions") or {}).get("HttpTokens") != "required":
        site.remark(name, "its nodes accept version 1 of the metadata service; the fleet requires version 2")
    if volume and not volume.get("Encrypted"):
        site.remark(name, "its root volumes are not encrypted; the fleet encrypts them")


def _image(name: str, template: Facts, made: dict[str, Any], region: RegionFacts, site: AdoptedSite) -> None:
    image = template.get("ImageId")
    if not image:
        return
    if not is_image_id(image):
        site.remark(
            name,
            f"its image is {image}; the fleet takes the release of its software channel, or the SSM parameter"
            " that you write as `image` of the group",
        )
        return
    known = region.images.get(image)
    if known is None:
        site.remark(
            name,
            f"its image {image} is deregistered, or no longer shared with this account; the fleet takes the"
            " release of its software channel",
        )
    elif known.startswith(("amazon-eks-node-", "Deep Learning ")):
        site.remark(name, f"its image is {known}; the fleet takes the release of its software channel")
    else:
        made["image"] = image


def _capacity(
    name: str,
    spot: bool,
    sizes: dict[str, int],
    template: Facts,
    region: RegionFacts,
    site: AdoptedSite,
) -> dict[str, Any]:
    target = (template.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
    group = target.get("CapacityReservationResourceGroupArn")
    if group and not spot:
        if (template["CapacityReservationSpecification"].get("CapacityReservationPreference")) is None:
            site.remark(
                name, f"it buys on demand when {group} has no room; the fleet launches only into that group"
            )
        return {"reserved": {"odcr": {"nodes": sizes["max"], "group": group}}}
    held = region.reservations.get(target.get("CapacityReservationId", ""))
    if held is None:
        if target:
            site.remark(name, f"it launches into {target}, which holds nothing now: written as on-demand")
        return {"spot" if spot else "on_demand": sizes}
    nodes = int(held["TotalInstanceCount"])
    if sizes["max"] != nodes:
        site.remark(name, f"it has {sizes['max']} nodes at most, and its reservation {nodes}")
    kind = "capacity_block" if held.get("ReservationType") == "capacity-block" else "odcr"
    made: dict[str, Any] = {
        "nodes": nodes,
        "id": held["CapacityReservationId"],
        "instance_type": held["InstanceType"],
        "zone": held["AvailabilityZone"],
        "instances": nodes,
    }
    if kind == "capacity_block" and held.get("EndDate"):
        made["duration"] = f"{round((held['EndDate'] - held['StartDate']) / timedelta(days=1))} d"
    return {"reserved": {kind: made}}
