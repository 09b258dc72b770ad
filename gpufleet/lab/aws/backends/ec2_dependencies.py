"""Deletions that EC2 rejects while something depends on the resource, and moto allows.

Without them a destroy in a wrong order would succeed here and fail in a real account. Sources: EC2
API reference (DeleteSecurityGroup, DeleteSubnet, ReleaseAddress, DetachInternetGateway, DeleteVpc)
and its error codes (DependencyViolation, InvalidIPAddress.InUse).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends import ec2_vpn_gateways
from gpufleet.lab.aws.backends.operation import AwsError, Call, Passthrough, operation


@operation("ec2", "DeleteSecurityGroup")
def delete_security_group(call: Call) -> Passthrough:
    """Reject the deletion while an interface has the group or another group's rule refers to it."""
    backend = ec2.ec2_backend(call)
    group_id = call.params.get("GroupId")
    if group_id:
        carriers = [eni.id for eni in backend.enis.values() if group_id in {g.id for g in eni.group_set}]
        carriers += [
            one.id
            for one in backend.vpc_end_points.values()
            if one.state != "deleted" and group_id in one.security_group_ids
        ]
        if carriers or any(group_id in _named_by(group) for group in _other_groups(backend, group_id)):
            raise AwsError("DependencyViolation", f"resource {group_id} has a dependent object")
    return call.original()


@operation("ec2", "DeleteSubnet")
def delete_subnet(call: Call) -> Passthrough:
    """Reject the deletion while the subnet has interfaces; its route table association is deleted with it."""
    backend, subnet_id = ec2.ec2_backend(call), call.params["SubnetId"]
    if any(eni.subnet.id == subnet_id for eni in backend.enis.values()):
        message = f"The subnet '{subnet_id}' has dependencies and cannot be deleted."
        raise AwsError("DependencyViolation", message)
    answer = call.original()
    for table in backend.route_tables.values():
        for key in [key for key, owner in table._associations.items() if owner == subnet_id]:
            del table._associations[key]
    return answer


@operation("ec2", "ReleaseAddress")
def release_address(call: Call) -> Passthrough:
    """Reject the release while a NAT gateway uses the address."""
    allocation = call.params.get("AllocationId")
    for gateway in _nat_gateways(ec2.ec2_backend(call)):
        if allocation and allocation in _addresses(gateway):
            message = f"Address {allocation} is in use by {gateway.id}."
            raise AwsError("InvalidIPAddress.InUse", message)
    return call.original()


@operation("ec2", "DeleteNatGateway")
def delete_nat_gateway(call: Call) -> Passthrough:
    """Delete the gateway with its interface."""
    backend, gateway_id = ec2.ec2_backend(call), call.params["NatGatewayId"]
    gateway = backend.nat_gateways.get(gateway_id)
    if gateway is None:
        raise AwsError("NatGatewayNotFound", f"NAT gateway {gateway_id} was not found")
    answer = call.original()
    for allocation in _addresses(gateway):
        backend.disassociate_address(address=backend.address_by_allocation([allocation])[0].public_ip)
    backend.enis.pop(gateway._eni.id, None)
    return answer


@operation("ec2", "DetachInternetGateway")
def detach_internet_gateway(call: Call) -> Passthrough:
    """Reject the detachment while NAT gateways of the VPC have public addresses."""
    vpc_id = call.params["VpcId"]
    if any(one.vpc_id == vpc_id and _addresses(one) for one in _nat_gateways(ec2.ec2_backend(call))):
        message = f"Network {vpc_id} has some mapped public address(es). Please unmap those first."
        raise AwsError("DependencyViolation", message)
    return call.original()


@operation("ec2", "DeleteVpc")
def delete_vpc(call: Call) -> Passthrough:
    """Reject the deletion while the VPC has resources of the user."""
    backend, vpc_id = ec2.ec2_backend(call), call.params["VpcId"]
    if any(_inside(backend, vpc_id)):
        message = f"The vpc '{vpc_id}' has dependencies and cannot be deleted."
        raise AwsError("DependencyViolation", message)
    return call.original()


def _inside(backend: Any, vpc_id: str) -> Iterator[bool]:
    yield any(subnet.vpc_id == vpc_id for zone in backend.subnets.values() for subnet in zone.values())
    yield any(getattr(one.vpc, "id", None) == vpc_id for one in backend.internet_gateways.values())
    yield any(group.name != "default" for group in backend.groups.get(vpc_id, {}).values())
    yield any(one.vpc_id == vpc_id for one in _nat_gateways(backend))
    yield any(eni.subnet.vpc_id == vpc_id for eni in backend.enis.values())
    yield ec2_vpn_gateways.has_attached_gateway(backend, vpc_id)


def _nat_gateways(backend: Any) -> list[Any]:
    return [one for one in backend.nat_gateways.values() if one.state != "deleted"]


def _addresses(gateway: Any) -> list[str]:
    return [one["allocationId"] for one in gateway.address_set if one.get("allocationId")]


def _other_groups(backend: Any, group_id: str) -> Iterator[Any]:
    for groups in backend.groups.values():
        for group in groups.values():
            if group.id != group_id:
                yield group


def _named_by(group: Any) -> set[str]:
    rules = [*group.ingress_rules, *group.egress_rules]
    return {rule.source_group.get("GroupId") for rule in rules if rule.source_group}
