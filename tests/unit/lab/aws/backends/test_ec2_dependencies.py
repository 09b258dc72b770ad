from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def vpc(aws: Any) -> Any:
    """A VPC with a public subnet, an internet gateway and a NAT gateway."""
    ec2 = aws("ec2")
    found = {"vpc": ec2.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]}
    found["subnet"] = ec2.create_subnet(VpcId=found["vpc"], CidrBlock="10.40.0.0/24")["Subnet"]["SubnetId"]
    found["gateway"] = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=found["gateway"], VpcId=found["vpc"])
    found["address"] = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=found["subnet"], AllocationId=found["address"])["NatGateway"]
    found["nat"] = nat["NatGatewayId"]
    ec2.get_waiter("nat_gateway_available").wait(NatGatewayIds=[found["nat"]])
    found["table"] = ec2.create_route_table(VpcId=found["vpc"])["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=found["table"], SubnetId=found["subnet"])
    return found


def test_network_is_deleted_in_order_or_not_at_all(aws: Any, vpc: Any, refused: Any) -> None:
    ec2 = aws("ec2")
    with refused("DependencyViolation"):
        ec2.delete_vpc(VpcId=vpc["vpc"])
    with refused("DependencyViolation"):
        ec2.delete_subnet(SubnetId=vpc["subnet"])
    with refused("InvalidIPAddress.InUse"):
        ec2.release_address(AllocationId=vpc["address"])
    with refused("DependencyViolation"):
        ec2.detach_internet_gateway(InternetGatewayId=vpc["gateway"], VpcId=vpc["vpc"])
    with refused("DependencyViolation"):
        ec2.delete_internet_gateway(InternetGatewayId=vpc["gateway"])
    ec2.delete_nat_gateway(NatGatewayId=vpc["nat"])
    ec2.get_waiter("nat_gateway_deleted").wait(NatGatewayIds=[vpc["nat"]])
    ec2.release_address(AllocationId=vpc["address"])
    ec2.detach_internet_gateway(InternetGatewayId=vpc["gateway"], VpcId=vpc["vpc"])
    ec2.delete_internet_gateway(InternetGatewayId=vpc["gateway"])
    with refused("DependencyViolation"):
        ec2.delete_vpc(VpcId=vpc["vpc"])
    ec2.delete_subnet(SubnetId=vpc["subnet"])
    ec2.delete_route_table(RouteTableId=vpc["table"])
    ec2.delete_vpc(VpcId=vpc["vpc"])
    with refused("InvalidVpcID.NotFound"):
        ec2.describe_vpcs(VpcIds=[vpc["vpc"]])
    assert ec2.describe_network_interfaces()["NetworkInterfaces"] == []
    assert ec2.describe_addresses()["Addresses"] == []


def test_security_group_in_use_is_not_deleted(aws: Any, network: Any, refused: Any) -> None:
    ec2 = aws("ec2")

    def group(name: str) -> str:
        made = ec2.create_security_group(GroupName=name, Description=name, VpcId=network.vpc)
        found: str = made["GroupId"]
        return found

    named, naming, carried = group("named"), group("naming"), group("carried")
    rule = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": named}]}]
    ec2.authorize_security_group_ingress(GroupId=naming, IpPermissions=rule)
    endpoint = ec2.create_vpc_endpoint(
        VpcId=network.vpc,
        ServiceName="com.amazonaws.us-east-1.ecr.api",
        VpcEndpointType="Interface",
        SubnetIds=[network.subnets[0]],
        SecurityGroupIds=[carried],
    )["VpcEndpoint"]["VpcEndpointId"]
    for one in (named, carried):
        with refused("DependencyViolation"):
            ec2.delete_security_group(GroupId=one)
    ec2.revoke_security_group_ingress(GroupId=naming, IpPermissions=rule)
    ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])
    for one in (named, naming, carried):
        ec2.delete_security_group(GroupId=one)


def test_security_group_that_refers_to_itself_can_be_deleted(aws: Any, network: Any) -> None:
    ec2 = aws("ec2")
    group = ec2.create_security_group(GroupName="self", Description="self", VpcId=network.vpc)["GroupId"]
    rule = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=rule)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=rule)
    ec2.delete_security_group(GroupId=group)


def test_rule_can_be_changed_tagged_and_revoked_by_its_id(aws: Any, network: Any, refused: Any) -> None:
    ec2 = aws("ec2")
    group = ec2.create_security_group(GroupName="rules", Description="rules", VpcId=network.vpc)["GroupId"]
    (rule,) = ec2.authorize_security_group_ingress(
        GroupId=group,
        IpPermissions=[
            {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}
        ],
    )["SecurityGroupRules"]
    changed = {
        "IpProtocol": "tcp",
        "FromPort": 988,
        "ToPort": 1023,
        "CidrIpv4": "10.0.0.0/16",
        "Description": "Lustre",
    }
    name = rule["SecurityGroupRuleId"]
    ec2.modify_security_group_rules(
        GroupId=group, SecurityGroupRules=[{"SecurityGroupRuleId": name, "SecurityGroupRule": changed}]
    )
    ec2.create_tags(Resources=[name], Tags=[{"Key": "fleet", "Value": "atlas"}])
    (found,) = ec2.describe_security_group_rules(SecurityGroupRuleIds=[name])["SecurityGroupRules"]
    assert changed.items() <= found.items()
    assert found["Tags"] == [{"Key": "fleet", "Value": "atlas"}]
    ec2.revoke_security_group_ingress(GroupId=group, SecurityGroupRuleIds=[name])
    with refused("InvalidSecurityGroupRuleId.NotFound"):
        ec2.describe_security_group_rules(SecurityGroupRuleIds=[name])
    ec2.delete_security_group(GroupId=group)


@pytest.mark.parametrize("region", ["us-east-1", "us-east-2", "us-west-2", "eu-central-1"])
def test_every_region_has_its_zones_with_ids(aws: Any, region: str) -> None:
    zones = aws("ec2", region).describe_availability_zones()["AvailabilityZones"]
    assert len(zones) >= 3
    assert all(
        one["ZoneName"].startswith(region) and one["ZoneId"] and one["State"] == "available" for one in zones
    )
    assert len({one["ZoneId"] for one in zones}) == len(zones)
