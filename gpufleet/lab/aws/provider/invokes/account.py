"""Functions on the account, its regions and their contents."""

from __future__ import annotations

import base64
from typing import Any

from gpufleet.errors import CloudError
from gpufleet.lab.aws.provider.handler import PARTITION, Aws
from gpufleet.lab.aws.provider.wire import Props

_TOKEN_LIFETIME_S = 60


def get_caller_identity(aws: Aws, arguments: Props) -> Props:
    """Return the caller."""
    found = aws.client("sts").get_caller_identity()
    return {
        "accountId": found["Account"],
        "arn": found["Arn"],
        "userId": found["UserId"],
        "id": found["Account"],
    }


def get_partition(aws: Aws, arguments: Props) -> Props:
    """The partition of ARNs and the suffix of service names."""
    return {
        "partition": PARTITION,
        "dnsSuffix": "amazonaws.com",
        "reverseDnsPrefix": "com.amazonaws",
        "id": PARTITION,
    }


def get_region(aws: Aws, arguments: Props) -> Props:
    """Return the requested region, or the provider's; the description comes from botocore's data."""
    region = str(arguments.get("region") or arguments.get("name") or aws.region)
    partition = next(
        item for item in aws.clients.endpoint_data()["partitions"] if item["partition"] == PARTITION
    )
    known = partition["regions"].get(region)
    if known is None:
        raise CloudError(f"AWS has no region {region!r}", remedy="correct the region")
    return {
        "name": region, "region": region, "id": region, "description": known["description"],
        "endpoint": f"ec2.{region}.{partition['dnsSuffix']}",
    }  # fmt: skip


def get_availability_zones(aws: Aws, arguments: Props) -> Props:
    """The zones of the region that fit the filters, in order of name."""
    parameters: dict[str, Any] = {}
    filters = [
        {"Name": str(item["name"]), "Values": [str(value) for value in item["values"]]}
        for item in arguments.get("filters") or ()
    ]
    if arguments.get("state"):
        filters.append({"Name": "state", "Values": [arguments["state"]]})
    if filters:
        parameters["Filters"] = filters
    if arguments.get("allAvailabilityZones"):
        parameters["AllAvailabilityZones"] = True
    zones = aws.client("ec2").describe_availability_zones(**parameters)["AvailabilityZones"]
    left_out = {*(arguments.get("excludeNames") or ()), *(arguments.get("excludeZoneIds") or ())}
    kept = sorted(
        (zone for zone in zones if zone["ZoneName"] not in left_out and zone.get("ZoneId") not in left_out),
        key=lambda zone: str(zone["ZoneName"]),
    )
    return {
        "id": aws.region,
        "names": [zone["ZoneName"] for zone in kept],
        "zoneIds": [zone.get("ZoneId", "") for zone in kept],
        "groupNames": sorted({str(zone.get("GroupName") or aws.region) for zone in kept}),
    }


def get_parameter(aws: Aws, arguments: Props) -> Props:
    """A parameter of Systems Manager, such as the id of a recommended image."""
    decrypt = bool(arguments.get("withDecryption", True))
    found = aws.client("ssm").get_parameter(Name=arguments["name"], WithDecryption=decrypt)["Parameter"]
    return {
        "id": found["Name"], "name": found["Name"], "arn": found.get("ARN"), "type": found["Type"],
        "value": found["Value"], "version": found.get("Version"), "withDecryption": decrypt,
        "insecureValue": None if found["Type"] == "SecureString" else found["Value"],
    }  # fmt: skip


def get_parameters_by_path(aws: Aws, arguments: Props) -> Props:
    """The parameters in a folder of Systems Manager; empty lists if there are none."""
    decrypt = bool(arguments.get("withDecryption", True))
    recursive = bool(arguments.get("recursive", False))
    pages = (
        aws.client("ssm")
        .get_paginator("get_parameters_by_path")
        .paginate(Path=arguments["path"], WithDecryption=decrypt, Recursive=recursive)
    )
    found = [item for page in pages for item in page["Parameters"]]
    lists = {"arns": "ARN", "names": "Name", "types": "Type", "values": "Value"}
    return {
        "id": arguments["path"], "path": arguments["path"], "withDecryption": decrypt, "recursive": recursive,
        **{key: [item.get(name) for item in found] for key, name in lists.items()},
    }  # fmt: skip


def get_cluster_auth(aws: Aws, arguments: Props) -> Props:
    """Return a bearer token for a cluster: a presigned GetCallerIdentity, which the cluster would verify."""
    name = str(arguments["name"])
    sts = aws.client("sts")

    def name_cluster(request: Any, **_: Any) -> None:
        request.headers["x-k8s-aws-id"] = name

    event = "before-sign.sts.GetCallerIdentity"
    sts.meta.events.register(event, name_cluster, unique_id=f"cluster-{name}")
    try:
        url = sts.generate_presigned_url(
            "get_caller_identity", Params={}, ExpiresIn=_TOKEN_LIFETIME_S, HttpMethod="GET"
        )
    finally:
        sts.meta.events.unregister(event, name_cluster, unique_id=f"cluster-{name}")
    return {
        "id": name,
        "name": name,
        "token": f"k8s-aws-v1.{base64.urlsafe_b64encode(url.encode()).decode().rstrip('=')}",
    }
