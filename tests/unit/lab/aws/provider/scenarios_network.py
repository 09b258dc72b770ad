"""Lifecycles of the network types."""

from __future__ import annotations

from tests.unit.lab.aws.provider.driver import Resource
from tests.unit.lab.aws.provider.scenarios import Inputs, Scenario, drift_tag, retagged
from tests.unit.lab.aws.provider.world import ZONES, World

S3 = "com.amazonaws.us-east-1.s3"
ALL = {"protocol": "-1", "fromPort": 0, "toPort": 0}


def vpc_drift(world: World, resource: Resource) -> str:
    world.client("ec2").modify_vpc_attribute(VpcId=resource.id, EnableDnsSupport={"Value": False})
    return "enableDnsSupport"


def subnet_drift(world: World, resource: Resource) -> str:
    world.client("ec2").modify_subnet_attribute(SubnetId=resource.id, MapPublicIpOnLaunch={"Value": False})
    return "mapPublicIpOnLaunch"


def route_table_drift(world: World, resource: Resource) -> str:
    ec2 = world.client("ec2")
    ec2.create_route(
        RouteTableId=resource.id, DestinationCidrBlock="172.16.0.0/12", GatewayId=world.gateway.id
    )
    return "routes"


def route_drift(world: World, resource: Resource) -> str:
    ec2 = world.client("ec2")
    target = {"RouteTableId": world.table.id, "DestinationCidrBlock": "192.168.0.0/16"}
    ec2.delete_route(**target)
    ec2.create_route(**target, GatewayId=world.gateway.id)
    return "gatewayId"


def group_drift(world: World, resource: Resource) -> str:
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    world.client("ec2").authorize_security_group_ingress(GroupId=resource.id, IpPermissions=[rule])
    return "ingress"


def single_rule_drift(world: World, resource: Resource) -> str:
    rule = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIpv4": "0.0.0.0/0"}
    world.client("ec2").modify_security_group_rules(
        GroupId=world.bare_group.id,
        SecurityGroupRules=[{"SecurityGroupRuleId": resource.id, "SecurityGroupRule": rule}],
    )
    return "cidrIpv4"


def endpoint_drift(world: World, resource: Resource) -> str:
    world.client("ec2").modify_vpc_endpoint(
        VpcEndpointId=resource.id, RemoveRouteTableIds=[world.other_table.id]
    )
    return "routeTableIds"


def tunnel_drift(world: World, resource: Resource) -> str:
    ec2 = world.client("ec2")
    (found,) = ec2.describe_vpn_connections(VpnConnectionIds=[resource.id])["VpnConnections"]
    first = min(one["OutsideIpAddress"] for one in found["Options"]["TunnelOptions"])
    ec2.modify_vpn_tunnel_options(
        VpnConnectionId=resource.id,
        VpnTunnelOutsideIpAddress=first,
        TunnelOptions={"IKEVersions": [{"Value": "ikev1"}]},
    )
    return "tunnel1IkeVersions"


def prefix_drift(world: World, resource: Resource) -> str:
    world.client("directconnect").update_direct_connect_gateway_association(
        associationId=resource.state["dxGatewayAssociationId"],
        addAllowedPrefixesToDirectConnectGateway=[{"cidr": "10.2.0.0/16"}],
    )
    return "allowedPrefixes"


def endpoint_name_drift(world: World, resource: Resource) -> str:
    world.client("route53resolver").update_resolver_endpoint(ResolverEndpointId=resource.id, Name="renamed")
    return "name"


def rule_drift(world: World, resource: Resource) -> str:
    world.client("route53resolver").update_resolver_rule(
        ResolverRuleId=resource.id, Config={"TargetIps": [{"Ip": "10.60.9.53", "Port": 53}]}
    )
    return "targetIps"


def single_rule(world: World) -> Inputs:
    return {
        "securityGroupId": world.bare_group.id, "ipProtocol": "tcp", "fromPort": 443, "toPort": 443,
        "cidrIpv4": "10.0.0.0/16",
    }  # fmt: skip


NETWORK = (
    Scenario(
        "aws:ec2/vpc:Vpc",
        lambda w: {"cidrBlock": "10.9.0.0/16", "enableDnsHostnames": True, "tags": {"Name": "v"}},
        lambda w: {"enableDnsHostnames": False, "tags": {"Name": "w"}},
        lambda w: {"cidrBlock": "10.8.0.0/16"},
        vpc_drift,
    ),
    Scenario(
        "aws:ec2/subnet:Subnet",
        lambda w: {"vpcId": w.vpc.id, "cidrBlock": "10.0.100.0/24", "availabilityZone": ZONES[0]},
        lambda w: {"mapPublicIpOnLaunch": True, "tags": {"Name": "public"}},
        lambda w: {"availabilityZone": ZONES[1]},
        subnet_drift,
    ),
    Scenario(
        "aws:ec2/subnetCidrReservation:SubnetCidrReservation",
        lambda w: {
            "subnetId": w.subnets[0].id, "cidrBlock": "10.0.0.16/28", "reservationType": "explicit",
            "description": "servers",
        },
        replace=lambda w: {"cidrBlock": "10.0.0.32/28"},
    ),
    Scenario(
        "aws:ec2/internetGateway:InternetGateway",
        lambda w: {"tags": {"Name": "igw"}},
        lambda w: {"vpcId": w.other_vpc.id},
        drift=drift_tag,
    ),
    Scenario(
        "aws:ec2/eip:Eip", lambda w: {"domain": "vpc"}, retagged,
        lambda w: {"networkBorderGroup": "us-east-1"}, drift_tag,
    ),
    Scenario(
        "aws:ec2/natGateway:NatGateway",
        lambda w: {"allocationId": w.addresses[0].id, "subnetId": w.subnets[0].id},
        retagged,
        lambda w: {"subnetId": w.subnets[1].id, "allocationId": w.addresses[1].id},
        drift_tag,
    ),
    Scenario(
        "aws:ec2/routeTable:RouteTable",
        lambda w: {"vpcId": w.vpc.id, "routes": [{"cidrBlock": "192.168.0.0/16", "gatewayId": w.gateway.id}]},
        lambda w: {"routes": [
            {"cidrBlock": "0.0.0.0/0", "gatewayId": w.gateway.id},
            {"cidrBlock": "192.168.0.0/16", "natGatewayId": w.nat.id},
        ]},
        lambda w: {"vpcId": w.other_vpc.id},
        route_table_drift,
    ),
    Scenario(
        "aws:ec2/route:Route",
        lambda w: {"routeTableId": w.table.id, "destinationCidrBlock": "192.168.0.0/16",
        "gatewayId": w.gateway.id},
        lambda w: {"gatewayId": None, "natGatewayId": w.nat.id},
        lambda w: {"destinationCidrBlock": "172.16.0.0/12"},
        route_drift,
    ),
    Scenario(
        "aws:ec2/routeTableAssociation:RouteTableAssociation",
        lambda w: {"routeTableId": w.table.id, "subnetId": w.subnets[0].id},
        replace=lambda w: {"routeTableId": w.other_table.id},
    ),
    Scenario(
        "aws:ec2/vpcEndpoint:VpcEndpoint",
        lambda w: {"vpcId": w.vpc.id, "serviceName": S3, "routeTableIds": [w.table.id]},
        lambda w: {"routeTableIds": [w.table.id, w.other_table.id]},
        lambda w: {"serviceName": "com.amazonaws.us-east-1.dynamodb"},
        endpoint_drift,
    ),
    Scenario(
        "aws:ec2/customerGateway:CustomerGateway",
        lambda w: {"type": "ipsec.1", "ipAddress": "203.0.113.20", "bgpAsn": "65010"},
        retagged,
        lambda w: {"bgpAsn": None, "bgpAsnExtended": "4200000000"},
        drift_tag,
    ),
    Scenario(
        "aws:ec2/vpnGateway:VpnGateway",
        lambda w: {"amazonSideAsn": "64513", "tags": {"Name": "vgw"}},
        lambda w: {"vpcId": w.other_vpc.id},
        lambda w: {"amazonSideAsn": "64514"},
        drift_tag,
    ),
    Scenario(
        "aws:ec2/vpnConnection:VpnConnection",
        lambda w: {
            "type": "ipsec.1", "customerGatewayId": w.router.id, "vpnGatewayId": w.vpn_gateway.id,
            "tunnel1IkeVersions": ["ikev2"], "tunnel2Phase1DhGroupNumbers": [19, 20],
            "tunnel1LogOptions": {"cloudwatchLogOptions": {"logEnabled": False}},
        },
        lambda w: {
            "customerGatewayId": w.other_router.id, "tunnel2Phase1DhGroupNumbers": [20, 21],
            "tunnel1LogOptions": {"cloudwatchLogOptions": {
                "logEnabled": True, "logGroupArn": w.log_groups[0].state["arn"], "logOutputFormat": "json",
            }},
        },
        lambda w: {"staticRoutesOnly": True},
        tunnel_drift,
    ),
    Scenario(
        "aws:ec2/vpnConnectionRoute:VpnConnectionRoute",
        lambda w: {"vpnConnectionId": w.static_vpn.id, "destinationCidrBlock": "10.60.0.0/22"},
        replace=lambda w: {"destinationCidrBlock": "10.64.0.0/22"},
    ),
    Scenario(
        "aws:ec2/vpnGatewayRoutePropagation:VpnGatewayRoutePropagation",
        lambda w: {"vpnGatewayId": w.vpn_gateway.id, "routeTableId": w.table.id},
        replace=lambda w: {"routeTableId": w.other_table.id},
    ),
    Scenario(
        "aws:directconnect/gatewayAssociation:GatewayAssociation",
        lambda w: {
            "dxGatewayId": w.direct_connect_gateways[0], "associatedGatewayId": w.vpn_gateway.id,
            "allowedPrefixes": ["10.0.0.0/16"],
        },
        lambda w: {"allowedPrefixes": ["10.0.0.0/15"]},
        lambda w: {"dxGatewayId": w.direct_connect_gateways[1]},
        prefix_drift,
    ),
    Scenario(
        "aws:directconnect/gatewayAssociationProposal:GatewayAssociationProposal",
        lambda w: {
            "dxGatewayId": w.direct_connect_gateways[0], "associatedGatewayId": w.vpn_gateway.id,
            "dxGatewayOwnerAccountId": "444455556666", "allowedPrefixes": ["10.0.0.0/16"],
        },
        replace=lambda w: {"dxGatewayOwnerAccountId": "777788889999"},
    ),
    Scenario(
        "aws:route53/resolverEndpoint:ResolverEndpoint",
        lambda w: {
            "name": "racks", "direction": "INBOUND", "securityGroupIds": [w.dns_group.id],
            "ipAddresses": [{"subnetId": each.id} for each in w.subnets[:2]],
        },
        lambda w: {"name": "hall"},
        lambda w: {"direction": "OUTBOUND"},
        endpoint_name_drift,
    ),
    Scenario(
        "aws:route53/resolverRule:ResolverRule",
        lambda w: {
            "ruleType": "FORWARD", "domainName": "corp.example", "resolverEndpointId": w.outbound_endpoint.id,
            "targetIps": [{"ip": "10.60.0.53", "port": 53}],
        },
        lambda w: {"targetIps": [{"ip": "10.60.0.53", "port": 53}, {"ip": "10.60.1.53", "port": 53}]},
        lambda w: {"domainName": "lab.example"},
        rule_drift,
    ),
    Scenario(
        "aws:route53/resolverRuleAssociation:ResolverRuleAssociation",
        lambda w: {"name": "use1", "resolverRuleId": w.dns_rule.id, "vpcId": w.vpc.id},
        replace=lambda w: {"vpcId": w.other_vpc.id},
    ),
    Scenario(
        "aws:ec2/securityGroup:SecurityGroup",
        lambda w: {
            "vpcId": w.vpc.id, "description": "efa", "ingress": [{**ALL, "self": True}],
            "egress": [{**ALL, "self": True}, {**ALL, "cidrBlocks": ["0.0.0.0/0"]}],
        },
        lambda w: {"ingress": [
            {**ALL, "self": True},
            {"protocol": "tcp", "fromPort": 443, "toPort": 443, "cidrBlocks": ["10.0.0.0/16"],
            "description": "https"},
        ]},
        lambda w: {"description": "another"},
        group_drift,
    ),
    Scenario(
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        lambda w: {"vpcId": w.other_vpc.id},
        lambda w: {"ingress": [{**ALL, "self": True}]},
        lambda w: {"vpcId": w.vpc.id},
        drift=group_drift,
        stays=True,
    ),
    Scenario(
        "aws:ec2/securityGroupRule:SecurityGroupRule",
        lambda w: {
            "securityGroupId": w.bare_group.id, "type": "ingress", "protocol": "tcp", "fromPort": 22,
            "toPort": 22,
            "cidrBlocks": ["10.0.0.0/16", "10.1.0.0/16"],
        },
        lambda w: {"description": "ssh"},
        lambda w: {"toPort": 23},
    ),
    Scenario(
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        single_rule,
        lambda w: {"cidrIpv4": "10.0.0.0/8", "description": "from everywhere here"},
        lambda w: {"securityGroupId": w.other_group.id},
        single_rule_drift,
    ),
    Scenario(
        "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
        lambda w: {"securityGroupId": w.bare_group.id, "ipProtocol": "-1", "cidrIpv4": "10.0.0.0/16"},
        lambda w: {"cidrIpv4": "10.0.0.0/8", "tags": {"Name": "out"}},
        lambda w: {"securityGroupId": w.other_group.id},
    ),
    Scenario(
        "aws:ec2/flowLog:FlowLog",
        lambda w: {
            "vpcId": w.vpc.id, "trafficType": "ALL", "logDestination": w.log_groups[0].state["arn"],
            "iamRoleArn": w.logs_role.state["arn"],
        },
        retagged,
        lambda w: {"trafficType": "REJECT"},
        drift_tag,
    ),
)  # fmt: skip
