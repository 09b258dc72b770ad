"""Site-to-site VPNs of the emulated AWS: tunnels, routes, and the order of deletions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.lab.aws.inventory import list_resources


@pytest.fixture
def vpn(aws: Any) -> Iterator[dict[str, str]]:
    """A VPC with a VPN of static routes."""
    ec2 = aws("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    gateway = ec2.create_vpn_gateway(Type="ipsec.1")["VpnGateway"]["VpnGatewayId"]
    ec2.attach_vpn_gateway(VpnGatewayId=gateway, VpcId=vpc)
    router = new_router(ec2, "203.0.113.7")
    connection = new_connection(ec2, router, gateway, StaticRoutesOnly=True)
    found = {"vpc": vpc, "table": table, "gateway": gateway, "router": router, "connection": connection}
    yield found
    live = ec2.describe_vpn_connections(Filters=[{"Name": "state", "Values": ["available"]}])
    for one in live["VpnConnections"]:
        ec2.delete_vpn_connection(VpnConnectionId=one["VpnConnectionId"])
    for one in ec2.describe_customer_gateways()["CustomerGateways"]:
        if one["State"] == "available":
            ec2.delete_customer_gateway(CustomerGatewayId=one["CustomerGatewayId"])
    ec2.detach_vpn_gateway(VpnGatewayId=gateway, VpcId=vpc)
    ec2.delete_vpn_gateway(VpnGatewayId=gateway)
    ec2.delete_route_table(RouteTableId=table)
    ec2.delete_vpc(VpcId=vpc)


def new_router(ec2: Any, address: str, **number: int) -> str:
    number = number or {"BgpAsn": 65000}
    made = ec2.create_customer_gateway(Type="ipsec.1", IpAddress=address, **number)["CustomerGateway"]
    found: str = made["CustomerGatewayId"]
    return found


def new_connection(ec2: Any, router: str, gateway: str, **options: Any) -> str:
    made = ec2.create_vpn_connection(
        Type="ipsec.1", CustomerGatewayId=router, VpnGatewayId=gateway, Options=options
    )
    found: str = made["VpnConnection"]["VpnConnectionId"]
    return found


def shown(ec2: Any, connection: str) -> dict[str, Any]:
    (found,) = ec2.describe_vpn_connections(VpnConnectionIds=[connection])["VpnConnections"]
    return dict(found)


def test_connection_has_two_tunnels_with_keys_of_their_own(aws: Any, vpn: dict[str, str]) -> None:
    found = shown(aws("ec2"), vpn["connection"])
    tunnels = found["Options"]["TunnelOptions"]
    for key in ("OutsideIpAddress", "TunnelInsideCidr", "PreSharedKey"):
        assert len({tunnel[key] for tunnel in tunnels}) == 2, key
    assert [one["Status"] for one in found["VgwTelemetry"]] == ["DOWN", "DOWN"]
    for tunnel in tunnels:
        assert 8 <= len(tunnel["PreSharedKey"]) <= 64
        assert tunnel["PreSharedKey"] in found["CustomerGatewayConfiguration"]


def test_deletions_in_another_order_are_refused(aws: Any, vpn: dict[str, str], refused: Any) -> None:
    ec2 = aws("ec2")
    with refused("DependencyViolation"):
        ec2.delete_vpc(VpcId=vpn["vpc"])
    with refused("IncorrectState"):
        ec2.delete_customer_gateway(CustomerGatewayId=vpn["router"])
    with refused("IncorrectState"):
        ec2.delete_vpn_gateway(VpnGatewayId=vpn["gateway"])
    ec2.delete_vpn_connection(VpnConnectionId=vpn["connection"])
    assert shown(ec2, vpn["connection"])["State"] == "deleted"
    with refused("IncorrectState"):
        ec2.delete_vpn_gateway(VpnGatewayId=vpn["gateway"])


def test_address_of_a_router_has_one_connection(aws: Any, vpn: dict[str, str], refused: Any) -> None:
    ec2 = aws("ec2")
    other = new_router(ec2, "203.0.113.7", BgpAsn=65001)
    assert other != vpn["router"]
    with refused("InvalidCustomerGateway.DuplicateIpAddress"):
        new_connection(ec2, other, vpn["gateway"])
    assert new_connection(ec2, new_router(ec2, "203.0.113.8"), vpn["gateway"])


def test_the_same_router_is_made_once(aws: Any, vpn: dict[str, str]) -> None:
    assert new_router(aws("ec2"), "203.0.113.7") == vpn["router"]


def test_long_bgp_number_is_kept(aws: Any, vpn: dict[str, str]) -> None:
    del vpn
    ec2 = aws("ec2")
    router = new_router(ec2, "203.0.113.9", BgpAsnExtended=4200000000)
    (found,) = ec2.describe_customer_gateways(CustomerGatewayIds=[router])["CustomerGateways"]
    assert (found.get("BgpAsn"), found["BgpAsnExtended"]) == (None, "4200000000")


def test_static_routes_need_a_connection_without_bgp(aws: Any, vpn: dict[str, str], refused: Any) -> None:
    ec2 = aws("ec2")
    route = {"DestinationCidrBlock": "10.60.0.0/22", "VpnConnectionId": vpn["connection"]}
    ec2.create_vpn_connection_route(**route)
    assert [one["DestinationCidrBlock"] for one in shown(ec2, vpn["connection"])["Routes"]] == [
        "10.60.0.0/22"
    ]
    ec2.delete_vpn_connection_route(**route)
    assert shown(ec2, vpn["connection"])["Routes"] == []
    with refused("InvalidRoute.NotFound"):
        ec2.delete_vpn_connection_route(**route)
    dynamic = new_connection(ec2, new_router(ec2, "203.0.113.10"), vpn["gateway"])
    with refused("InvalidParameterValue"):
        ec2.create_vpn_connection_route(**{**route, "VpnConnectionId": dynamic})


def test_only_the_attached_gateway_gives_routes(aws: Any, vpn: dict[str, str], refused: Any) -> None:
    ec2 = aws("ec2")
    wanted = {"RouteTableId": vpn["table"], "GatewayId": vpn["gateway"]}

    def propagating() -> list[dict[str, str]]:
        (table,) = ec2.describe_route_tables(RouteTableIds=[vpn["table"]])["RouteTables"]
        return list(table.get("PropagatingVgws") or [])

    ec2.enable_vgw_route_propagation(**wanted)
    assert propagating() == [{"GatewayId": vpn["gateway"]}]
    ec2.disable_vgw_route_propagation(**wanted)
    assert propagating() == []
    other = ec2.create_vpn_gateway(Type="ipsec.1")["VpnGateway"]["VpnGatewayId"]
    with refused("Gateway.NotAttached"):
        ec2.enable_vgw_route_propagation(RouteTableId=vpn["table"], GatewayId=other)
    with refused("VpnGatewayAttachmentLimitExceeded"):
        ec2.attach_vpn_gateway(VpnGatewayId=other, VpcId=vpn["vpc"])
    ec2.delete_vpn_gateway(VpnGatewayId=other)


@pytest.mark.parametrize(
    "options",
    [
        {"IKEVersions": [{"Value": "ikev3"}]},
        {"Phase1EncryptionAlgorithms": [{"Value": "3DES"}]},
        {"Phase1DHGroupNumbers": [{"Value": 5}]},
        {"StartupAction": "stop"},
    ],
)
def test_options_that_aws_lacks_are_refused(
    aws: Any, vpn: dict[str, str], refused: Any, options: dict[str, Any]
) -> None:
    ec2 = aws("ec2")
    address = shown(ec2, vpn["connection"])["Options"]["TunnelOptions"][0]["OutsideIpAddress"]
    with refused("InvalidParameterValue"):
        ec2.modify_vpn_tunnel_options(
            VpnConnectionId=vpn["connection"], VpnTunnelOutsideIpAddress=address, TunnelOptions=options
        )


def test_leftovers_are_listed_until_they_are_deleted(aws: Any, endpoint: Any, vpn: dict[str, str]) -> None:
    kinds = {"ec2:customer-gateway", "ec2:vpn-gateway", "ec2:vpn-connection"}
    found = {one.service: one.id for one in list_resources(endpoint, ["us-east-1"]) if one.service in kinds}
    assert found == {
        "ec2:customer-gateway": vpn["router"],
        "ec2:vpn-gateway": vpn["gateway"],
        "ec2:vpn-connection": vpn["connection"],
    }
    aws("ec2").delete_vpn_connection(VpnConnectionId=vpn["connection"])
    assert "ec2:vpn-connection" not in {one.service for one in list_resources(endpoint, ["us-east-1"])}


@pytest.mark.parametrize("kind", ["", "Bgp"])
def test_logs_need_a_log_group_that_exists(aws: Any, vpn: dict[str, str], refused: Any, kind: str) -> None:
    ec2, logs = aws("ec2"), aws("logs")
    logs.create_log_group(logGroupName="/aws/vendedlogs/vpn")
    (group,) = logs.describe_log_groups(logGroupNamePrefix="/aws/vendedlogs/vpn")["logGroups"]
    arn = group["arn"].removesuffix(":*")
    address = shown(ec2, vpn["connection"])["Options"]["TunnelOptions"][0]["OutsideIpAddress"]

    def turn_on(group_arn: str) -> None:
        wanted = {f"{kind}LogEnabled": True, f"{kind}LogGroupArn": group_arn}
        ec2.modify_vpn_tunnel_options(
            VpnConnectionId=vpn["connection"],
            VpnTunnelOutsideIpAddress=address,
            TunnelOptions={"LogOptions": {"CloudWatchLogOptions": wanted}},
        )

    with refused("InvalidParameterValue"):
        turn_on(f"{arn}-other")
    turn_on(arn)
    tunnel = shown(ec2, vpn["connection"])["Options"]["TunnelOptions"][0]
    assert tunnel["LogOptions"]["CloudWatchLogOptions"][f"{kind}LogGroupArn"] == arn
    logs.delete_log_group(logGroupName="/aws/vendedlogs/vpn")
