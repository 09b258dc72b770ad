"""Route 53 Resolver of the emulated AWS: what rules need, and the order of deletions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from gpufleet.lab.aws import backends


@pytest.fixture
def clients() -> Iterator[Any]:
    backends.install("ec2", "route53resolver")

    def client(service: str) -> Any:
        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y"}
        return boto3.client(service, region_name="us-east-1", **keys)

    with mock_aws():
        yield client


@pytest.fixture
def network(clients: Any) -> dict[str, Any]:
    """A VPC with two subnets and a security group."""
    ec2 = clients("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.40.{number}.0/24")["Subnet"]["SubnetId"]
        for number in (0, 1)
    ]
    group = ec2.create_security_group(GroupName="dns", Description="dns", VpcId=vpc)["GroupId"]
    return {"vpc": vpc, "subnets": subnets, "group": group}


def new_endpoint(clients: Any, network: dict[str, Any], direction: str = "OUTBOUND") -> str:
    made = clients("route53resolver").create_resolver_endpoint(
        CreatorRequestId=direction,
        Direction=direction,
        SecurityGroupIds=[network["group"]],
        IpAddresses=[{"SubnetId": each} for each in network["subnets"]],
        Name="racks",
    )
    found: str = made["ResolverEndpoint"]["Id"]
    return found


def new_rule(clients: Any, endpoint: str, *servers: str, request: str = "first") -> str:
    made = clients("route53resolver").create_resolver_rule(
        CreatorRequestId=request,
        RuleType="FORWARD",
        DomainName="corp.example",
        ResolverEndpointId=endpoint,
        TargetIps=[{"Ip": each, "Port": 53} for each in servers],
        Name="corp",
    )
    found: str = made["ResolverRule"]["Id"]
    return found


def test_rule_needs_an_outbound_endpoint(clients: Any, network: dict[str, Any], refused: Any) -> None:
    with refused("InvalidRequestException"):
        new_rule(clients, new_endpoint(clients, network, "INBOUND"), "10.60.0.53")


def test_rule_has_six_servers_at_most(clients: Any, network: dict[str, Any], refused: Any) -> None:
    endpoint = new_endpoint(clients, network)
    servers = [f"10.60.0.{number}" for number in range(1, 8)]
    with refused("InvalidRequestException"):
        new_rule(clients, endpoint, *servers)
    new_rule(clients, endpoint, *servers[:6])


def test_servers_of_a_rule_change_and_its_domain_stays(
    clients: Any, network: dict[str, Any], refused: Any
) -> None:
    resolver = clients("route53resolver")
    rule = new_rule(clients, new_endpoint(clients, network), "10.60.0.53")
    resolver.update_resolver_rule(
        ResolverRuleId=rule, Config={"TargetIps": [{"Ip": "10.60.1.53", "Port": 53}]}
    )
    found = resolver.get_resolver_rule(ResolverRuleId=rule)["ResolverRule"]
    assert [each["Ip"] for each in found["TargetIps"]] == ["10.60.1.53"]
    assert (found["DomainName"], found["Name"]) == ("corp.example.", "corp")
    with refused("ResourceNotFoundException"):
        resolver.update_resolver_rule(ResolverRuleId="rslvr-rr-0123456789abcdef0", Config={"Name": "x"})


def test_vpc_has_one_rule_for_a_domain(clients: Any, network: dict[str, Any], refused: Any) -> None:
    resolver, endpoint = clients("route53resolver"), new_endpoint(clients, network)
    first, second = (new_rule(clients, endpoint, "10.60.0.53", request=each) for each in ("one", "two"))
    resolver.associate_resolver_rule(ResolverRuleId=first, VPCId=network["vpc"], Name="first")
    with refused("InvalidRequestException"):
        resolver.associate_resolver_rule(ResolverRuleId=second, VPCId=network["vpc"], Name="second")


def test_security_group_of_an_endpoint_stays_while_the_endpoint_does(
    clients: Any, network: dict[str, Any], refused: Any
) -> None:
    endpoint = new_endpoint(clients, network)
    with refused("DependencyViolation"):
        clients("ec2").delete_security_group(GroupId=network["group"])
    clients("route53resolver").delete_resolver_endpoint(ResolverEndpointId=endpoint)
    clients("ec2").delete_security_group(GroupId=network["group"])
