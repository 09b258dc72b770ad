"""Functions that search existing resources: by their tags, or a route table by its subnet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.errors import CloudError
from gpufleet.lab.aws.provider.handler import Aws
from gpufleet.lab.aws.provider.mapper import tags_to_map
from gpufleet.lab.aws.provider.wire import Props


def get_resources(aws: Aws, arguments: Props) -> Props:
    """Return all resources of the region whose tags match every filter."""
    parameters: dict[str, Any] = {
        "TagFilters": [
            {"Key": item["key"], "Values": [str(value) for value in item.get("values") or ()]}
            for item in arguments.get("tagFilters") or ()
        ]
    }
    for key, name in (
        ("resourceTypeFilters", "ResourceTypeFilters"),
        ("resourceArnLists", "ResourceARNList"),
    ):
        if arguments.get(key):
            parameters[name] = [str(item) for item in arguments[key]]
    pages = aws.client("resourcegroupstaggingapi").get_paginator("get_resources").paginate(**parameters)
    found = [item for page in pages for item in page["ResourceTagMappingList"]]
    return {
        "id": aws.region,
        "resourceTagMappingLists": [
            {"resourceArn": item["ResourceARN"], "tags": tags_to_map(item["Tags"])} for item in found
        ],
    }


def get_objects(aws: Aws, arguments: Props) -> Props:
    """The keys in a bucket, at most `maxKeys` (1000 by default)."""
    parameters: dict[str, Any] = {"Bucket": str(arguments["bucket"])}
    for key, name in (("prefix", "Prefix"), ("delimiter", "Delimiter"), ("startAfter", "StartAfter")):
        if arguments.get(key):
            parameters[name] = str(arguments[key])
    if arguments.get("maxKeys"):
        parameters["MaxKeys"] = int(arguments["maxKeys"])
    found = aws.client("s3").list_objects_v2(**parameters)
    return {
        "id": parameters["Bucket"],
        "keys": [item["Key"] for item in found.get("Contents") or ()],
        "commonPrefixes": [item["Prefix"] for item in found.get("CommonPrefixes") or ()],
        "owners": [],
        "requestCharged": "",
    }


def get_route_table(aws: Aws, arguments: Props) -> Props:
    """Return the matching route table; none for a subnet that uses the main table, as in AWS."""
    filters = [
        {"Name": name, "Values": [str(arguments[key])]}
        for key, name in (
            ("routeTableId", "route-table-id"),
            ("subnetId", "association.subnet-id"),
            ("vpcId", "vpc-id"),
        )
        if arguments.get(key)
    ]
    tables = aws.client("ec2").describe_route_tables(Filters=filters)["RouteTables"]
    if len(tables) != 1:
        raise CloudError(
            f"{len(tables)} route tables match, and one is expected", remedy="set a route table or a subnet"
        )
    (table,) = tables
    return {
        "id": table["RouteTableId"],
        "routeTableId": table["RouteTableId"],
        "vpcId": table["VpcId"],
        "ownerId": table.get("OwnerId", aws.account),
        "arn": aws.arn("ec2", f"route-table/{table['RouteTableId']}"),
        "tags": tags_to_map(table.get("Tags") or ()),
        "associations": [_association(item) for item in table.get("Associations") or ()],
    }


def _association(item: Mapping[str, Any]) -> Props:
    return {
        "main": bool(item.get("Main")),
        "gatewayId": item.get("GatewayId", ""),
        "routeTableAssociationId": item["RouteTableAssociationId"],
        "routeTableId": item["RouteTableId"],
        "subnetId": item.get("SubnetId", ""),
    }
