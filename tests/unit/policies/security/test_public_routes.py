"""Addresses and routes that make a node public, in every form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

VPC: Described = {"type": "aws:ec2/vpc:Vpc", "name": "vpc"}
GATEWAY: Described = {"type": "aws:ec2/internetGateway:InternetGateway", "name": "internet"}
SUBNET: Described = {"type": "aws:ec2/subnet:Subnet", "name": "subnet", "depends": {"vpcId": ["vpc"]}}
TABLE: Described = {"type": "aws:ec2/routeTable:RouteTable", "name": "table"}
DEFAULT = "aws:ec2/defaultRouteTable:DefaultRouteTable"
ASSOCIATION: Described = {
    "type": "aws:ec2/routeTableAssociation:RouteTableAssociation",
    "name": "association",
    "props": {"subnetId": UNKNOWN, "routeTableId": UNKNOWN},
    "depends": {"subnetId": ["subnet"], "routeTableId": ["table"]},
}
NAT: Described = {
    "type": "aws:ec2/route:Route",
    "name": "nat",
    "props": {"routeTableId": UNKNOWN, "natGatewayId": UNKNOWN, "destinationCidrBlock": "0.0.0.0/0"},
    "depends": {"routeTableId": ["table"]},
}


def route(**props: Any) -> Described:
    return {
        "type": "aws:ec2/route:Route",
        "name": "out",
        "props": {"routeTableId": UNKNOWN, "gatewayId": UNKNOWN, **props},
        "depends": {"routeTableId": ["table"], "gatewayId": ["internet"]},
    }


ROUTES = {
    "all": [TABLE, ASSOCIATION, route(destinationCidrBlock="0.0.0.0/0")],
    "half": [TABLE, ASSOCIATION, route(destinationCidrBlock="128.0.0.0/1")],
    "version 6": [TABLE, ASSOCIATION, route(destinationIpv6CidrBlock="::/0")],
    "prefix list": [TABLE, ASSOCIATION, route(destinationPrefixListId="pl-1")],
    "gateway outside": [TABLE, ASSOCIATION, route(gatewayId="igw-0123", destinationCidrBlock="0.0.0.0/0")],
    "carrier": [TABLE, ASSOCIATION, route(carrierGatewayId=UNKNOWN, gatewayId=None)],
    "inline": [
        {
            **TABLE,
            "props": {"routes": [{"cidrBlock": "0.0.0.0/0", "gatewayId": UNKNOWN}]},
            "depends": {"routes": ["internet"]},
        },
        ASSOCIATION,
    ],
    "main table": [
        {
            "type": DEFAULT,
            "name": "main",
            "props": {
                "defaultRouteTableId": UNKNOWN,
                "routes": [{"cidrBlock": "0.0.0.0/0", "gatewayId": "igw-0123"}],
            },
            "depends": {"defaultRouteTableId": ["vpc"]},
        }
    ],
    "another main table": [
        TABLE,
        route(destinationCidrBlock="0.0.0.0/0"),
        {
            "type": "aws:ec2/mainRouteTableAssociation:MainRouteTableAssociation",
            "name": "main",
            "props": {"vpcId": UNKNOWN, "routeTableId": UNKNOWN},
            "depends": {"vpcId": ["vpc"], "routeTableId": ["table"]},
        },
    ],
    "route of the main table": [
        {
            **route(destinationCidrBlock="0.0.0.0/0"),
            "depends": {"routeTableId": ["vpc"], "gatewayId": ["internet"]},
        }
    ],
}
NODES = {
    "aws:eks/nodeGroup:NodeGroup": ("subnetIds", {"subnetIds": [UNKNOWN]}),
    "aws:autoscaling/group:Group": ("vpcZoneIdentifiers", {"vpcZoneIdentifiers": [UNKNOWN]}),
    "aws:ec2/launchTemplate:LaunchTemplate": (
        "networkInterfaces",
        {"networkInterfaces": [{"subnetId": UNKNOWN}]},
    ),
    "aws:ec2/networkInterface:NetworkInterface": ("subnetId", {"subnetId": UNKNOWN}),
    "aws:eks/fargateProfile:FargateProfile": ("subnetIds", {"subnetIds": [UNKNOWN]}),
    "aws:ec2/fleet:Fleet": (
        "launchTemplateConfigs",
        {"launchTemplateConfigs": [{"overrides": [{"instanceType": "g6.xlarge", "subnetId": UNKNOWN}]}]},
    ),
    "aws:ec2/spotFleetRequest:SpotFleetRequest": (
        "launchTemplateConfigs",
        {"launchTemplateConfigs": [{"overrides": [{"subnetId": UNKNOWN}]}]},
    ),
    "aws:ec2/instance:Instance": ("subnetId", {"subnetId": UNKNOWN, "associatePublicIpAddress": False}),
}


def subnets_of(ask: Ask, *resources: Described) -> list[RuleViolation]:
    return [each for each in ask("no-public-ip", *resources) if "internet gateway" in each.message]


@pytest.mark.parametrize("form", ROUTES)
@pytest.mark.parametrize("kind", NODES)
def test_node_in_a_subnet_with_a_route_to_the_internet_is_found(ask: Ask, form: str, kind: str) -> None:
    prop, props = NODES[kind]
    private = {
        **SUBNET,
        "props": {"vpcId": UNKNOWN, "mapPublicIpOnLaunch": False},
    }
    node = {"type": kind, "name": "node", "props": props, "depends": {prop: ["subnet"]}}
    (found,) = subnets_of(ask, VPC, GATEWAY, private, *ROUTES[form], node)
    assert found.urn.endswith("::node")
    assert "NAT" in found.message


@pytest.mark.parametrize("kind", NODES)
def test_node_in_a_subnet_behind_nat_passes(ask: Ask, kind: str) -> None:
    prop, props = NODES[kind]
    node = {"type": kind, "name": "node", "props": props, "depends": {prop: ["subnet"]}}
    public = {**SUBNET, "name": "public", "props": {"vpcId": UNKNOWN}}
    beside = {
        **ASSOCIATION,
        "name": "beside",
        "depends": {"subnetId": ["public"], "routeTableId": ["open"]},
    }
    out = {
        **route(destinationCidrBlock="0.0.0.0/0"),
        "depends": {"routeTableId": ["open"], "gatewayId": ["internet"]},
    }
    network = [VPC, GATEWAY, {**SUBNET, "props": {"vpcId": UNKNOWN}}, TABLE, ASSOCIATION, NAT]
    assert subnets_of(ask, *network, public, {**TABLE, "name": "open"}, beside, out, node) == []


def test_main_table_applies_to_subnets_of_its_network_without_their_own(ask: Ask) -> None:
    prop, props = NODES["aws:eks/nodeGroup:NodeGroup"]
    node = {"type": "aws:eks/nodeGroup:NodeGroup", "name": "node", "props": props}
    own = {**SUBNET, "name": "own", "props": {"vpcId": UNKNOWN}}
    elsewhere = {**SUBNET, "name": "elsewhere", "props": {"vpcId": UNKNOWN}, "depends": {"vpcId": ["other"]}}
    private = {**ASSOCIATION, "depends": {"subnetId": ["own"], "routeTableId": ["table"]}}
    plain = {**SUBNET, "props": {"vpcId": UNKNOWN}}
    network = [VPC, {**VPC, "name": "other"}, GATEWAY, own, elsewhere, plain, TABLE, private, NAT]
    for name, found in {"own": False, "elsewhere": False, "subnet": True}.items():
        placed = {**node, "depends": {prop: [name]}}
        assert bool(subnets_of(ask, *network, *ROUTES["main table"], placed)) == found, name
        assert bool(ask("no-public-ip", *network, *ROUTES["main table"], placed)) == found, name


def test_subnet_outside_the_stack_is_found_by_its_id(ask: Ask) -> None:
    outside = {**ASSOCIATION, "props": {"subnetId": "subnet-1", "routeTableId": UNKNOWN}}
    outside["depends"] = {"routeTableId": ["table"]}
    node = {"type": "aws:eks/nodeGroup:NodeGroup", "name": "node", "props": {"subnetIds": ["subnet-1"]}}
    out = route(destinationCidrBlock="0.0.0.0/0")
    assert subnets_of(ask, GATEWAY, TABLE, outside, out, node)
    other = {**node, "props": {"subnetIds": ["subnet-2"]}}
    assert subnets_of(ask, GATEWAY, TABLE, outside, out, other) == []


KNOWN = {
    "vpc": {**VPC, "props": {"id": "vpc-1"}},
    "internet": {**GATEWAY, "props": {"id": "gateway-1"}},
    "subnet": {**SUBNET, "props": {"id": "subnet-1", "vpcId": "vpc-1"}, "depends": {}},
    "table": {**TABLE, "props": {"id": "rtb-1"}},
}


def known(kind: str, name: str, **props: Any) -> Described:
    return {"type": f"aws:ec2/{kind}", "name": name, "props": props}


MAIN = "mainRouteTableAssociation:MainRouteTableAssociation"
OUT = {"cidrBlock": "0.0.0.0/0", "gatewayId": "gateway-1"}
TO_TABLE = known("route:Route", "out", routeTableId="rtb-1", gatewayId="gateway-1")
OF_SUBNET = known(
    "routeTableAssociation:RouteTableAssociation", "of", subnetId="subnet-1", routeTableId="rtb-1"
)


@pytest.mark.parametrize(
    ("routes", "public"),
    [
        ([TO_TABLE, OF_SUBNET], True),
        ([{**TO_TABLE, "props": {**TO_TABLE["props"], "gatewayId": " igw-9"}}, OF_SUBNET], True),
        ([{**TO_TABLE, "props": {**TO_TABLE["props"], "gatewayId": "vgw-9"}}, OF_SUBNET], False),
        ([{**TO_TABLE, "props": {**TO_TABLE["props"], "routeTableId": "rtb-9"}}, OF_SUBNET], False),
        ([TO_TABLE], False),
        ([TO_TABLE, known(MAIN, "main", vpcId="vpc-1", routeTableId="rtb-1")], True),
        ([TO_TABLE, known(MAIN, "main", vpcId="vpc-9", routeTableId="rtb-1")], False),
        ([TO_TABLE, known(MAIN, "main", vpcId="vpc-1", routeTableId="rtb-9")], False),
        ([known("defaultRouteTable:DefaultRouteTable", "main", routes=[OUT])], False),
        (
            [TO_TABLE, known("defaultRouteTable:DefaultRouteTable", "main", defaultRouteTableId="vpc-1")],
            False,
        ),
    ],
)
def test_known_ids_lead_from_the_subnet_to_the_gateway(
    ask: Ask, routes: list[Described], public: bool
) -> None:
    for node in ("subnet-1", UNKNOWN):
        placed = {
            "type": "aws:eks/nodeGroup:NodeGroup",
            "name": "node",
            "props": {"subnetIds": [node]},
            "depends": {"subnetIds": ["subnet"]} if node is UNKNOWN else {},
        }
        assert bool(subnets_of(ask, *KNOWN.values(), *routes, placed)) is public


def test_table_with_one_route_to_the_gateway_among_others_is_public(ask: Ask) -> None:
    nat = {"cidrBlock": "10.0.0.0/8", "natGatewayId": "nat-1"}
    table = {**KNOWN["table"], "props": {"id": "rtb-1", "routes": [nat, OUT]}}
    node = {"type": "aws:eks/nodeGroup:NodeGroup", "name": "node", "props": {"subnetIds": ["subnet-1"]}}
    network = [KNOWN["vpc"], KNOWN["internet"], KNOWN["subnet"], table, OF_SUBNET]
    assert subnets_of(ask, *network, node)
    inside = {**table, "props": {"id": "rtb-1", "routes": [nat]}}
    assert subnets_of(ask, *network[:3], inside, OF_SUBNET, node) == []


def test_gateway_that_is_computed_from_nothing_of_the_stack_is_none(ask: Ask) -> None:
    hidden = {**route(destinationCidrBlock="0.0.0.0/0"), "depends": {"routeTableId": ["table"]}}
    node = {"type": "aws:eks/nodeGroup:NodeGroup", "name": "node", "props": {"subnetIds": [UNKNOWN]}}
    placed = {**node, "depends": {"subnetIds": ["subnet"]}}
    plain = {**SUBNET, "props": {"vpcId": UNKNOWN}}
    assert subnets_of(ask, VPC, GATEWAY, plain, TABLE, ASSOCIATION, hidden, placed) == []


def test_known_subnet_of_a_node_counts_and_not_one_that_it_depends_on(ask: Ask) -> None:
    node = {"type": "aws:eks/nodeGroup:NodeGroup", "name": "node", "props": {"subnetIds": ["subnet-9"]}}
    placed = {**node, "depends": {"subnetIds": ["subnet"]}}
    assert subnets_of(ask, *KNOWN.values(), TO_TABLE, OF_SUBNET, placed) == []


def test_route_without_a_gateway_leads_to_none_that_its_table_depends_on(ask: Ask) -> None:
    nat = {"cidrBlock": "0.0.0.0/0", "natGatewayId": UNKNOWN}
    table = {**KNOWN["table"], "props": {"id": "rtb-1", "routes": [nat]}, "depends": {"routes": ["internet"]}}
    node = {"type": "aws:eks/nodeGroup:NodeGroup", "name": "node", "props": {"subnetIds": ["subnet-1"]}}
    network = [KNOWN["vpc"], KNOWN["internet"], KNOWN["subnet"]]
    assert subnets_of(ask, *network, table, OF_SUBNET, node) == []


def test_node_with_two_public_subnets_is_reported_once(ask: Ask) -> None:
    other = {**KNOWN["subnet"], "name": "second", "props": {"id": "subnet-2", "vpcId": "vpc-1"}}
    second = {**OF_SUBNET, "name": "second-of", "props": {"subnetId": "subnet-2", "routeTableId": "rtb-1"}}
    node = {
        "type": "aws:ec2/launchTemplate:LaunchTemplate",
        "name": "node",
        "props": {
            "networkInterfaces": [
                {"subnetId": "subnet-9"},
                {"subnetId": "subnet-1"},
                {"subnetId": "subnet-2"},
            ]
        },
    }
    (found,) = subnets_of(ask, *KNOWN.values(), other, TO_TABLE, OF_SUBNET, second, node)
    assert found.violation.prop == "networkInterfaces[1].subnetId"


@pytest.mark.parametrize(
    ("kind", "props", "found"),
    [
        ("aws:ec2/eip:Eip", {"networkInterface": "eni-1"}, True),
        ("aws:ec2/eip:Eip", {"instance": UNKNOWN}, True),
        ("aws:ec2/eip:Eip", {"domain": "vpc"}, False),
        ("aws:ec2/eip:Eip", {"associateWithPrivateIp": "10.0.0.5"}, True),
        ("aws:ec2/eipAssociation:EipAssociation", {"privateIpAddress": "10.0.0.5"}, True),
        ("aws:ec2/eipAssociation:EipAssociation", {"networkInterfaceId": UNKNOWN}, True),
        ("aws:ec2/eipAssociation:EipAssociation", {"instanceId": "i-1"}, True),
    ],
)
def test_address_of_an_instance_or_interface_is_found(ask: Ask, kind: str, props: Any, found: bool) -> None:
    assert bool(ask("no-public-ip", {"type": kind, "props": props})) == found


TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
GROUP = "aws:autoscaling/group:Group"
MACHINE = "aws:ec2/instance:Instance"


@pytest.mark.parametrize(
    ("kind", "props", "template", "found"),
    [
        (MACHINE, {}, None, True),
        (MACHINE, {"associatePublicIpAddress": False}, None, False),
        (MACHINE, {"subnetId": UNKNOWN}, None, False),
        (MACHINE, {"subnetId": "subnet-1"}, None, True),
        (MACHINE, {"subnetId": "subnet-1", "associatePublicIpAddress": False}, None, False),
        (MACHINE, {"networkInterfaces": [{"networkInterfaceId": UNKNOWN}]}, None, False),
        (MACHINE, {"primaryNetworkInterface": {"networkInterfaceId": UNKNOWN}}, None, False),
        ("aws:ec2/spotInstanceRequest:SpotInstanceRequest", {}, None, True),
        (GROUP, {"availabilityZones": ["us-east-1a"]}, {}, True),
        (GROUP, {"vpcZoneIdentifiers": [UNKNOWN]}, {}, False),
        (GROUP, {}, {"networkInterfaces": [{"subnetId": UNKNOWN}]}, False),
        (GROUP, {}, {"networkInterfaces": [{"associatePublicIpAddress": False}]}, False),
        ("aws:ec2/fleet:Fleet", {}, {"networkInterfaces": [{"deviceIndex": 0}]}, True),
    ],
)
def test_node_without_a_subnet_is_in_the_public_network_of_the_account(
    ask: Ask, kind: str, props: dict[str, Any], template: dict[str, Any] | None, found: bool
) -> None:
    node: Described = {"type": kind, "name": "node", "props": props}
    resources = [node]
    if template is not None:
        place = "launchTemplateConfigs" if "fleet" in kind else "launchTemplate"
        given = {"id": UNKNOWN, "version": UNKNOWN}
        of_fleet = [{"launchTemplateSpecification": {"launchTemplateId": UNKNOWN, "version": UNKNOWN}}]
        node["props"] = {**props, place: of_fleet if "fleet" in kind else given}
        node["depends"] = {place: ["template"]}
        resources.append({"type": TEMPLATE, "name": "template", "props": template})
    assert bool(ask("no-public-ip", *resources)) == found


SCHEME = "service.beta.kubernetes.io/aws-load-balancer-scheme"
INTERNAL = "service.beta.kubernetes.io/aws-load-balancer-internal"


@pytest.mark.parametrize(
    ("kind", "props", "found"),
    [
        ("aws:lb/loadBalancer:LoadBalancer", {}, True),
        ("aws:alb/loadBalancer:LoadBalancer", {"internal": False}, True),
        ("aws:elb/loadBalancer:LoadBalancer", {"internal": UNKNOWN}, True),
        ("aws:lb/loadBalancer:LoadBalancer", {"internal": True}, False),
        ("aws:lb/loadBalancer:LoadBalancer", {"loadBalancerType": "gateway"}, False),
        ("aws:s3/bucket:Bucket", {}, False),
        ("other:slb/loadBalancer:LoadBalancer", {}, False),
        ("kubernetes:example.org/v1:Gateway", {"spec": {"type": "LoadBalancer"}}, False),
        (
            "kubernetes:core/v1:Service",
            {"metadata": {"annotations": UNKNOWN}, "spec": {"type": "LoadBalancer"}},
            True,
        ),
        ("kubernetes:networking.k8s.io/v1:Ingress", {"metadata": {"annotations": UNKNOWN}}, False),
        (
            "kubernetes:core/v1:Service",
            {"metadata": {"annotations": {"alb.ingress.kubernetes.io/scheme": "internet-facing"}}},
            False,
        ),
        ("kubernetes:core/v1:Service", {"spec": {"type": "LoadBalancer"}}, True),
        ("kubernetes:core/v1:Service", {"spec": {"type": "ClusterIP"}}, False),
        (
            "kubernetes:core/v1:Service",
            {"metadata": {"annotations": {SCHEME: "internal"}}, "spec": {"type": "LoadBalancer"}},
            False,
        ),
        (
            "kubernetes:core/v1:Service",
            {"metadata": {"annotations": {INTERNAL: "true"}}, "spec": {"type": "LoadBalancer"}},
            False,
        ),
        (
            "kubernetes:core/v1:Service",
            {
                "metadata": {"annotations": {INTERNAL: "true", SCHEME: "internet-facing"}},
                "spec": {"type": "LoadBalancer"},
            },
            True,
        ),
        (
            "kubernetes:networking.k8s.io/v1:Ingress",
            {"metadata": {"annotations": {"alb.ingress.kubernetes.io/scheme": "internet-facing"}}},
            True,
        ),
        ("kubernetes:networking.k8s.io/v1:Ingress", {"metadata": {"name": "x"}}, False),
    ],
)
def test_public_load_balancer_is_reported_as_a_warning(ask: Ask, kind: str, props: Any, found: bool) -> None:
    violations = ask("no-public-load-balancers", {"type": kind, "props": props})
    assert bool(violations) == found
    assert all(each.level == "advisory" for each in violations)
