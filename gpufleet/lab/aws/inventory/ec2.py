"""Listers of EC2: network, capacity and instances of one region, without AWS's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpufleet.lab.aws.inventory.model import Clients, Lister, pages, tag_dict

_ENDED = {"terminated", "shutting-down", "deleted", "deleting", "cancelled", "expired", "failed"}


def _kind(
    operation: str,
    result: str,
    key: str,
    keep: Callable[[Any], bool] = lambda _: True,
    **parameters: Any,
) -> Lister:
    def lister(clients: Clients) -> Iterator[tuple[str, dict[str, str]]]:
        for item in pages(clients("ec2"), operation, result, **parameters):
            if keep(item):
                yield item[key], tag_dict(item.get("Tags"))

    return lister


def _lives(item: Any) -> bool:
    return str(item.get("State", "")).lower() not in _ENDED


def _instances(clients: Clients) -> Iterator[tuple[str, dict[str, str]]]:
    for reservation in pages(clients("ec2"), "describe_instances", "Reservations"):
        for instance in reservation["Instances"]:
            if instance["State"]["Name"] not in _ENDED:
                yield instance["InstanceId"], tag_dict(instance.get("Tags"))


def _internet_gateways(clients: Clients) -> Iterator[tuple[str, dict[str, str]]]:
    defaults = {vpc["VpcId"] for vpc in pages(clients("ec2"), "describe_vpcs", "Vpcs") if vpc["IsDefault"]}
    for gateway in pages(clients("ec2"), "describe_internet_gateways", "InternetGateways"):
        if not defaults & {one.get("VpcId") for one in gateway.get("Attachments") or []}:
            yield gateway["InternetGatewayId"], tag_dict(gateway.get("Tags"))


def _not_main(table: Any) -> bool:
    return not any(one.get("Main") for one in table.get("Associations") or [])


def _security_groups(clients: Clients) -> Iterator[tuple[str, dict[str, str]]]:
    for group in pages(clients("ec2"), "describe_security_groups", "SecurityGroups"):
        if group["GroupName"] != "default":
            yield group["GroupId"], tag_dict(group.get("Tags"))


def _dhcp_options(clients: Clients) -> Iterator[tuple[str, dict[str, str]]]:
    for options in pages(clients("ec2"), "describe_dhcp_options", "DhcpOptions"):
        values = {
            one["Key"]: [value["Value"] for value in one["Values"]] for one in options["DhcpConfigurations"]
        }
        if values.get("domain-name-servers") != ["AmazonProvidedDNS"]:
            yield options["DhcpOptionsId"], tag_dict(options.get("Tags"))


def _kept_addresses(clients: Clients) -> Iterator[tuple[str, dict[str, str]]]:
    ec2 = clients("ec2")
    for subnet in pages(ec2, "describe_subnets", "Subnets"):
        found = ec2.get_subnet_cidr_reservations(SubnetId=subnet["SubnetId"])
        for one in found["SubnetIpv4CidrReservations"]:
            yield one["SubnetCidrReservationId"], tag_dict(one.get("Tags"))


def _reservation(item: Any) -> bool:
    return _lives(item) and item.get("ReservationType") != "capacity-block"


LISTERS: list[tuple[str, Lister]] = [
    ("ec2:vpc", _kind("describe_vpcs", "Vpcs", "VpcId", lambda vpc: not vpc["IsDefault"])),
    ("ec2:subnet", _kind("describe_subnets", "Subnets", "SubnetId", lambda one: not one["DefaultForAz"])),
    ("ec2:subnet-cidr-reservation", _kept_addresses),
    ("ec2:internet-gateway", _internet_gateways),
    ("ec2:elastic-ip", _kind("describe_addresses", "Addresses", "AllocationId")),
    ("ec2:nat-gateway", _kind("describe_nat_gateways", "NatGateways", "NatGatewayId", _lives)),
    ("ec2:route-table", _kind("describe_route_tables", "RouteTables", "RouteTableId", _not_main)),
    (
        "ec2:network-acl",
        _kind("describe_network_acls", "NetworkAcls", "NetworkAclId", lambda acl: not acl["IsDefault"]),
    ),
    ("ec2:vpc-endpoint", _kind("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId", _lives)),
    ("ec2:security-group", _security_groups),
    ("ec2:vpc-flow-log", _kind("describe_flow_logs", "FlowLogs", "FlowLogId")),
    ("ec2:dhcp-options", _dhcp_options),
    (
        "ec2:vpc-peering-connection",
        _kind(
            "describe_vpc_peering_connections",
            "VpcPeeringConnections",
            "VpcPeeringConnectionId",
            lambda one: one["Status"]["Code"] not in _ENDED,
        ),
    ),
    (
        "ec2:customer-gateway",
        _kind("describe_customer_gateways", "CustomerGateways", "CustomerGatewayId", _lives),
    ),
    ("ec2:vpn-gateway", _kind("describe_vpn_gateways", "VpnGateways", "VpnGatewayId", _lives)),
    ("ec2:vpn-connection", _kind("describe_vpn_connections", "VpnConnections", "VpnConnectionId", _lives)),
    (
        "ec2:network-interface",
        _kind("describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
    ),
    ("ec2:launch-template", _kind("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId")),
    ("ec2:placement-group", _kind("describe_placement_groups", "PlacementGroups", "GroupName")),
    (
        "ec2:capacity-reservation",
        _kind(
            "describe_capacity_reservations", "CapacityReservations", "CapacityReservationId", _reservation
        ),
    ),
    ("ec2:capacity-block", _kind("describe_capacity_blocks", "CapacityBlocks", "CapacityBlockId", _lives)),
    ("ec2:instance", _instances),
    ("ec2:volume", _kind("describe_volumes", "Volumes", "VolumeId")),
    ("ec2:key-pair", _kind("describe_key_pairs", "KeyPairs", "KeyPairId")),
    ("ec2:image", _kind("describe_images", "Images", "ImageId", Owners=["self"])),
]
"""In no special order; the service name is that of EC2's tag resource types if there is one."""
