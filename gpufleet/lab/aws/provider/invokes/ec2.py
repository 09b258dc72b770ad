"""Look-up functions of EC2."""

from __future__ import annotations

import re
from typing import Any

from gpufleet.errors import CloudError
from gpufleet.lab.aws.provider.handler import Aws, only
from gpufleet.lab.aws.provider.mapper import tags_to_map
from gpufleet.lab.aws.provider.wire import Props


def _filters(arguments: Props) -> dict[str, Any]:
    """The Filters parameter from `filters` and `tags`."""
    made = [
        {"Name": str(item["name"]), "Values": [str(value) for value in item["values"]]}
        for item in arguments.get("filters") or ()
    ]
    made += [
        {"Name": f"tag:{key}", "Values": [str(value)]} for key, value in (arguments.get("tags") or {}).items()
    ]
    return {"Filters": made} if made else {}


def get_ami(aws: Aws, arguments: Props) -> Props:
    """Return the one image that matches, or the newest of them with `mostRecent`."""
    parameters: dict[str, Any] = _filters(arguments)
    if arguments.get("owners"):
        parameters["Owners"] = list(arguments["owners"])
    if arguments.get("executableUsers"):
        parameters["ExecutableUsers"] = list(arguments["executableUsers"])
    if arguments.get("includeDeprecated"):
        parameters["IncludeDeprecated"] = True
    images = aws.client("ec2").describe_images(**parameters)["Images"]
    if arguments.get("nameRegex"):
        images = [image for image in images if re.search(str(arguments["nameRegex"]), image.get("Name", ""))]
    if not images:
        raise CloudError("no image matches the filters", remedy="check owners and filters, or the region")
    if len(images) > 1 and not arguments.get("mostRecent"):
        raise CloudError(
            f"{len(images)} images match the filters", remedy="narrow the filters or set mostRecent"
        )
    image = max(images, key=lambda item: str(item.get("CreationDate", "")))
    rid = str(image["ImageId"])
    out = {key[0].lower() + key[1:]: value for key, value in image.items()}
    devices = [
        {
            "deviceName": item.get("DeviceName", ""), "noDevice": str(item.get("NoDevice", "")),
            "virtualName": str(item.get("VirtualName", "")),
            "ebs": {key[0].lower() + key[1:]: str(value).lower() if isinstance(value, bool) else str(value)
                    for key, value in (item.get("Ebs") or {}).items()},
        }
        for item in image.get("BlockDeviceMappings") or ()
    ]  # fmt: skip
    keep = {
        "architecture", "bootMode", "creationDate", "deprecationTime", "description", "enaSupport",
        "hypervisor",
        "imageId", "imageLocation", "imageOwnerAlias", "imageType", "imdsSupport", "kernelId", "name",
        "ownerId",
        "platform", "platformDetails", "public", "ramdiskId", "rootDeviceName", "rootDeviceType",
        "sriovNetSupport",
        "state", "tpmSupport", "usageOperation", "virtualizationType",
    }  # fmt: skip
    root = next((item for item in devices if item["deviceName"] == image.get("RootDeviceName")), None)
    return {key: value for key, value in out.items() if key in keep} | {
        "id": rid,
        "arn": aws.arn("ec2", f"image/{rid}").replace(f":{aws.account}:", "::"),
        "blockDeviceMappings": devices,
        "productCodes": [],
        "stateReason": {"code": "UNSET", "message": "UNSET"},
        "rootSnapshotId": (root or {}).get("ebs", {}).get("snapshotId", ""),
        "tags": tags_to_map(image.get("Tags")),
    }


def get_capacity_block_offering(aws: Aws, arguments: Props) -> Props:
    """Return the one Capacity Block offering that matches; the cheapest, then the earliest."""
    keys = ("capacityDurationHours", "endDateRange", "instanceCount", "instanceType", "startDateRange")
    answer = aws.send("ec2", "DescribeCapacityBlockOfferings", only(arguments, *keys))
    offers = answer.get("CapacityBlockOfferings") or []
    if not offers:
        asked = ", ".join(f"{key}={arguments[key]}" for key in keys if arguments.get(key) is not None)
        raise CloudError(
            f"no Capacity Block is offered for {asked}", remedy="request another time, length or count"
        )
    best = min(offers, key=lambda item: (float(item.get("UpfrontFee") or 0), str(item.get("StartDate"))))
    return {
        "availabilityZone": best["AvailabilityZone"],
        "capacityBlockOfferingId": best["CapacityBlockOfferingId"],
        "capacityDurationHours": best.get("CapacityBlockDurationHours"),
        "currencyCode": best.get("CurrencyCode"),
        "instanceCount": best.get("InstanceCount"),
        "instanceType": best.get("InstanceType"),
        "startDateRange": arguments.get("startDateRange") or _time(best.get("StartDate")),
        "endDateRange": arguments.get("endDateRange") or _time(best.get("EndDate")),
        "tenancy": best.get("Tenancy"),
        "upfrontFee": best.get("UpfrontFee"),
    }


def _time(value: Any) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%SZ") if value is not None else ""


def get_instance_type_offerings(aws: Aws, arguments: Props) -> Props:
    """Return which instance types are offered in which place."""
    parameters: dict[str, Any] = _filters(arguments)
    if arguments.get("locationType"):
        parameters["LocationType"] = arguments["locationType"]
    pages = aws.client("ec2").get_paginator("describe_instance_type_offerings").paginate(**parameters)
    found = sorted(
        ((item["InstanceType"], item["Location"], item["LocationType"]) for page in pages
         for item in page["InstanceTypeOfferings"]),
    )  # fmt: skip
    return {
        "id": aws.region,
        "instanceTypes": [item[0] for item in found],
        "locations": [item[1] for item in found],
        "locationTypes": [item[2] for item in found],
    }


def get_instances(aws: Aws, arguments: Props) -> Props:
    """Return the matching instances; by default running ones."""
    filters = list(_filters({**arguments, "tags": arguments.get("instanceTags")}).get("Filters") or ())
    states = list(arguments.get("instanceStateNames") or ["running"])
    filters.append({"Name": "instance-state-name", "Values": states})
    pages = aws.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
    found = [item for page in pages for group in page["Reservations"] for item in group["Instances"]]
    found.sort(key=lambda item: str(item["InstanceId"]))
    return {
        "id": aws.region,
        "ids": [item["InstanceId"] for item in found],
        "instanceTags": arguments.get("instanceTags") or {},
        "privateIps": [item["PrivateIpAddress"] for item in found if item.get("PrivateIpAddress")],
        "publicIps": [item["PublicIpAddress"] for item in found if item.get("PublicIpAddress")],
        "ipv6Addresses": [
            address["Ipv6Address"]
            for item in found
            for interface in item.get("NetworkInterfaces") or ()
            for address in interface.get("Ipv6Addresses") or ()
        ],
    }


def get_subnets(aws: Aws, arguments: Props) -> Props:
    """The ids of the subnets that fit, in order."""
    pages = aws.client("ec2").get_paginator("describe_subnets").paginate(**_filters(arguments))
    ids = sorted(subnet["SubnetId"] for page in pages for subnet in page["Subnets"])
    return {"id": aws.region, "ids": ids, "tags": arguments.get("tags") or {}}


def get_vpc(aws: Aws, arguments: Props) -> Props:
    """The one VPC that fits."""
    ec2 = aws.client("ec2")
    filters = list(_filters(arguments).get("Filters") or ())
    for key, name in (("cidrBlock", "cidr"), ("dhcpOptionsId", "dhcp-options-id"), ("state", "state")):
        if arguments.get(key):
            filters.append({"Name": name, "Values": [arguments[key]]})
    if "default" in arguments:
        filters.append({"Name": "is-default", "Values": [str(bool(arguments["default"])).lower()]})
    parameters: dict[str, Any] = {"Filters": filters} if filters else {}
    if arguments.get("id"):
        parameters["VpcIds"] = [arguments["id"]]
    found = ec2.describe_vpcs(**parameters)["Vpcs"]
    if len(found) != 1:
        raise CloudError(f"{len(found)} VPCs match, not one", remedy="narrow id, tags or filters")
    vpc = found[0]
    rid = str(vpc["VpcId"])
    switches = {
        key: bool(ec2.describe_vpc_attribute(VpcId=rid, Attribute=key)[key[0].upper() + key[1:]]["Value"])
        for key in ("enableDnsSupport", "enableDnsHostnames", "enableNetworkAddressUsageMetrics")
    }
    main = ec2.describe_route_tables(
        Filters=[{"Name": "vpc-id", "Values": [rid]}, {"Name": "association.main", "Values": ["true"]}]
    )["RouteTables"]
    blocks = [
        {
            "associationId": item["AssociationId"],
            "cidrBlock": item["CidrBlock"],
            "state": item["CidrBlockState"]["State"],
        }
        for item in vpc.get("CidrBlockAssociationSet") or ()
    ]
    ipv6 = [
        {
            "associationId": item["AssociationId"], "ipPool": item.get("Ipv6Pool", ""),
            "ipv6CidrBlock": item["Ipv6CidrBlock"],
            "networkBorderGroup": item.get("NetworkBorderGroup", ""),
            "state": item["Ipv6CidrBlockState"]["State"],
        }
        for item in vpc.get("Ipv6CidrBlockAssociationSet") or ()
    ]  # fmt: skip
    return switches | {
        "id": rid,
        "arn": aws.arn("ec2", f"vpc/{rid}"),
        "cidrBlock": vpc["CidrBlock"],
        "cidrBlockAssociations": blocks,
        "default": bool(vpc.get("IsDefault")),
        "dhcpOptionsId": vpc.get("DhcpOptionsId", ""),
        "instanceTenancy": vpc.get("InstanceTenancy", "default"),
        "ipv6AssociationId": ipv6[0]["associationId"] if ipv6 else "",
        "ipv6CidrBlock": ipv6[0]["ipv6CidrBlock"] if ipv6 else "",
        "ipv6CidrBlockAssociations": ipv6,
        "mainRouteTableId": main[0]["RouteTableId"] if main else "",
        "ownerId": vpc.get("OwnerId", aws.account),
        "state": vpc["State"],
        "tags": tags_to_map(vpc.get("Tags")),
    }
