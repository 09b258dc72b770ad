"""Network: its resources, and forbidden settings."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gpufleet.components.network import Network, NetworkArgs, SubnetArgs
from gpufleet.errors import InputError
from tests.unit.components.recording import Recording, record

TAGS = {"team": "ml", "gpufleet:fleet": "atlas"}
SUBNETS = [
    SubnetArgs(zone="us-east-1a", cidr="10.0.0.0/20", public=True),
    SubnetArgs(zone="us-east-1a", cidr="10.0.16.0/20"),
    SubnetArgs(zone="us-east-1b", cidr="10.0.32.0/20", public=True),
    SubnetArgs(zone="us-east-1b", cidr="10.0.48.0/20"),
]


def network(**changes: Any) -> Recording:
    args = {"cidr": "10.0.0.0/16", "subnets": SUBNETS, "tags": TAGS, **changes}
    return record(lambda: Network("net", NetworkArgs(**args)))


def test_each_zone_gets_a_public_and_a_private_subnet_without_public_addresses() -> None:
    subnets = network().of("Subnet")
    assert sorted((s.inputs["availabilityZone"], s.inputs["cidrBlock"]) for s in subnets) == sorted(
        (s.zone, s.cidr) for s in SUBNETS
    )
    assert {s.inputs["mapPublicIpOnLaunch"] for s in subnets} == {False}


def test_single_nat_gateway_serves_every_private_subnet() -> None:
    built = network(nat_zones=["us-east-1a"])
    assert len(built.of("NatGateway")) == len(built.of("Eip")) == 1
    routes = [r for r in built.of("Route") if "natGatewayId" in r.inputs]
    assert len(routes) == 2
    assert {r.inputs["natGatewayId"] for r in routes} == {"net-nat-us-east-1a-id"}


def test_gateway_per_zone_keeps_traffic_in_its_zone() -> None:
    routes = [
        r for r in network(nat_zones=["us-east-1a", "us-east-1b"]).of("Route") if "natGatewayId" in r.inputs
    ]
    assert {(r.inputs["routeTableId"], r.inputs["natGatewayId"]) for r in routes} == {
        ("net-private-us-east-1a-id", "net-nat-us-east-1a-id"),
        ("net-private-us-east-1b-id", "net-nat-us-east-1b-id"),
    }


def test_gateway_is_in_the_first_public_zone_by_default() -> None:
    assert [gateway.name for gateway in network().of("NatGateway")] == ["net-nat-us-east-1a"]


def test_gateway_needs_a_public_subnet_in_its_zone() -> None:
    with pytest.raises(InputError, match="us-east-1z"):
        network(nat_zones=["us-east-1z"])


def test_private_subnets_without_nat_have_no_internet_route() -> None:
    built = network(nat_zones=[])
    assert built.of("NatGateway") == []
    assert built.of("Eip") == []
    assert [r.name for r in built.of("Route")] == ["net-public-internet"]


def test_network_without_public_subnets_has_no_internet_gateway() -> None:
    built = network(subnets=[s for s in SUBNETS if not s.public], nat_zones=[])
    assert built.of("InternetGateway") == []
    assert built.of("Route") == []


def test_every_private_route_table_has_the_s3_gateway_endpoint() -> None:
    endpoint = network().one("VpcEndpoint")
    assert endpoint.inputs["vpcEndpointType"] == "Gateway"
    assert endpoint.inputs["serviceName"] == "com.amazonaws.us-east-1.s3"
    assert endpoint.inputs["routeTableIds"] == ["net-private-us-east-1a-id", "net-private-us-east-1b-id"]


def test_interface_endpoints_accept_https_only_from_the_network() -> None:
    built = network(nat_zones=[], interface_endpoints=["ecr.api", "sts"])
    services = {e.inputs["serviceName"] for e in built.of("VpcEndpoint")}
    assert services == {f"com.amazonaws.us-east-1.{s}" for s in ("s3", "ecr.api", "sts")}
    rule = built.one("SecurityGroupIngressRule", "net-endpoints-https")
    https = ("tcp", 443, 443, "10.0.0.0/16")
    assert tuple(rule.inputs[key] for key in ("ipProtocol", "fromPort", "toPort", "cidrIpv4")) == https
    (group,) = [g for g in built.of("SecurityGroup") if g.name == "net-endpoints"]
    for made in (group, rule, *built.of("VpcEndpoint")):
        assert made.inputs["tags"].items() >= TAGS.items(), made.name
    interfaces = [e for e in built.of("VpcEndpoint") if e.inputs.get("vpcEndpointType") == "Interface"]
    assert [e.inputs["securityGroupIds"] for e in interfaces] == [["net-endpoints-id"]] * 2


def rules_of(built: Recording, group: str) -> list[tuple[str, dict[str, Any]]]:
    """The direction of each rule of a group, and what it allows. They are registered in no order."""
    common = ("securityGroupId", "description", "tags")
    found = [
        (direction, {key: value for key, value in rule.inputs.items() if key not in common})
        for direction in ("Ingress", "Egress")
        for rule in built.of(f"SecurityGroup{direction}Rule")
        if rule.inputs["securityGroupId"] == group
    ]
    return sorted(found, key=lambda each: (each[0], int(each[1].get("fromPort", 0)), str(each[1])))


def test_efa_group_allows_all_traffic_only_from_and_to_itself() -> None:
    members = {"ipProtocol": "-1", "referencedSecurityGroupId": "net-efa-id"}
    assert rules_of(network(), "net-efa-id") == [("Egress", members), ("Ingress", members)]


def test_group_outside_eks_reaches_its_members_this_network_and_http_only() -> None:
    members = {"ipProtocol": "-1", "referencedSecurityGroupId": "net-nodes-id"}
    web = {"ipProtocol": "tcp", "cidrIpv4": "0.0.0.0/0"}
    assert rules_of(network(), "net-nodes-id") == [
        ("Egress", {"ipProtocol": "-1", "cidrIpv4": "10.0.0.0/16"}),
        ("Egress", members),
        ("Egress", {**web, "fromPort": 80, "toPort": 80}),
        ("Egress", {**web, "fromPort": 443, "toPort": 443}),
        ("Ingress", members),
    ]


def test_no_security_group_is_open_to_the_world_and_no_rule_is_inline() -> None:
    built = network(nat_zones=[], interface_endpoints=["sts"])
    for rule in built.of("SecurityGroupIngressRule"):
        assert rule.inputs.get("cidrIpv4") not in ("0.0.0.0/0",)
        assert "cidrIpv6" not in rule.inputs
    for group in built.of("SecurityGroup"):
        assert not {"ingress", "egress"} & group.inputs.keys()


def test_default_security_group_is_closed() -> None:
    group = network().one("DefaultSecurityGroup")
    assert not group.inputs.get("ingress")
    assert not group.inputs.get("egress")


def test_flow_logs_are_kept_a_year_in_an_encrypted_group() -> None:
    built = network()
    group, key = built.one("LogGroup"), built.one("Key")
    assert group.inputs["retentionInDays"] == 365
    assert group.inputs["kmsKeyId"].endswith("Key/net-flow-logs")
    assert key.inputs["enableKeyRotation"] is True
    assert f"log-group:{group.inputs['name']}" in key.inputs["policy"]
    log = built.one("FlowLog")
    assert (log.inputs["trafficType"], log.inputs["vpcId"]) == ("ALL", "net-vpc-id")


def test_log_service_can_only_encrypt_with_the_key() -> None:
    owner, logs = json.loads(network().one("Key").inputs["policy"])["Statement"]
    assert owner["Action"] == "kms:*"
    assert owner["Principal"]["AWS"].endswith(":root")
    assert all(re.fullmatch(r"kms:\w+\*", action) for action in logs["Action"])
    assert logs["Condition"]["ArnEquals"].keys() == {"kms:EncryptionContext:aws:logs:arn"}


def test_flow_logs_can_write_only_to_their_group() -> None:
    built = network()
    (statement,) = json.loads(built.one("RolePolicy").inputs["policy"])["Statement"]
    assert statement["Resource"].endswith(":log-group:/gpufleet/net/flow-logs:*")


def test_subnets_are_tagged_for_load_balancers_only_with_a_cluster_name() -> None:
    with_cluster = network(cluster_name="atlas").of("Subnet")
    without = network().of("Subnet")
    public = next(s for s in with_cluster if "public" in s.name).inputs["tags"]
    private = next(s for s in with_cluster if "private" in s.name).inputs["tags"]
    assert public["kubernetes.io/role/elb"] == private["kubernetes.io/role/internal-elb"] == "1"
    assert public["kubernetes.io/cluster/atlas"] == "shared"
    assert all(not key.startswith("kubernetes.io/") for s in without for key in s.inputs["tags"])
