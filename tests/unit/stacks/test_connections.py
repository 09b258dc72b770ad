"""Sites with a VPN and Direct Connect to the racks, built in moto."""

from __future__ import annotations

from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any

import boto3
import pulumi
import pytest
from botocore.client import BaseClient

from gpufleet.account.actions import action_sets
from gpufleet.account.needs import region_needs
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import Recording, record
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, rack_site, spec
from tests.unit.stacks.moto_mocks import MotoMocks, emulated_aws

SETTINGS = StackSettings("sandbox", "sandbox", False, None, {}, {})
GATEWAY = "5f294f92-bafb-4011-916d-9b0bec1f4f35"
ZONES = ("us-east-1a", "us-east-1b")
ROUTER = {"gateway": "203.0.113.7", "asn": 65010}


CONNECTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "bgp": {"vpn": ROUTER},
    "static": {"vpn": {**ROUTER, "static": True}},
    "logged": {"vpn": {**ROUTER, "logs": True}},
    "direct": {"direct_connect": {"gateway": GATEWAY}},
    "proposed": {"direct_connect": {"gateway": GATEWAY, "owner": "444455556666"}},
    "dns": {
        "vpn": ROUTER,
        "dns": {"forward": [{"domain": "corp.example", "servers": ["10.60.0.53"]}], "inbound": True},
    },
    "both": {"vpn": ROUTER, "direct_connect": {"gateway": GATEWAY}},
}


def plan(connection: str, nat: str = "single", zones: tuple[str, ...] = ZONES) -> FleetPlan:
    network = {"cidr": "10.40.0.0/16", "nat": nat, **CONNECTIONS[connection]}
    site = cloud_site(group("one", "g6.xlarge", on_demand(0, 1)), network=network, zones=list(zones))
    return build_plan(spec(cloud=[site], onprem=[rack_site(network="10.60.0.0/22")]), CATALOG)


def add_gateway() -> None:
    """Let the account have the Direct Connect gateway of the fleet file."""
    from gpufleet.lab.aws.backends.directconnect_gateways import gateway_backends

    client = boto3.client("directconnect", region_name="us-east-1")
    made = client.create_direct_connect_gateway(directConnectGatewayName="dc")["directConnectGateway"]
    gateways = gateway_backends["123456789012"]["us-east-1"].gateways
    found = gateways.pop(made["directConnectGatewayId"])
    gateways[GATEWAY] = {**found, "directConnectGatewayId": GATEWAY}


@cache
def built(
    connection: str, nat: str = "single", zones: tuple[str, ...] = ZONES
) -> tuple[Recording, dict[str, Any]]:
    """The resources of the fleet, and the exports of its site."""
    exports: dict[str, Any] = {}

    def program() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pulumi, "export", exports.__setitem__)
            build_fleet(plan(connection, nat, zones), SETTINGS)
            pulumi.Output.all(exports["use1"]).apply(lambda found: exports.update(use1=found[0]))

    with emulated_aws():
        add_gateway()
        made = record(program, MotoMocks())
    return made, exports["use1"]


def test_site_without_a_vpn_has_no_gateway() -> None:
    made, exports = built("none")
    assert not made.of("gpufleet:network:SiteVpn")
    assert not made.of("VpnGateway")
    assert exports["vpn"] is None
    assert exports["direct_connect"] is None
    assert exports["dns"] is None


def test_outputs_are_ids_and_addresses_of_tunnels() -> None:
    _, exports = built("bgp")
    found = exports["vpn"]
    assert found["vpn_connection_id"].startswith("vpn-")
    assert found["customer_gateway_id"].startswith("cgw-")
    assert found["vpn_gateway_id"].startswith("vgw-")
    assert len(set(found["tunnel_addresses"])) == 2
    assert set(found) == {
        "vpn_connection_id",
        "customer_gateway_id",
        "vpn_gateway_id",
        "tunnel_addresses",
        "log_group",
    }
    assert found["log_group"] is None


def test_logged_tunnels_write_to_their_log_group() -> None:
    made, exports = built("logged")
    name = "/aws/vendedlogs/gpufleet/atlas-test-use1/vpn"
    assert exports["vpn"]["log_group"] == name
    assert name in {each.inputs["name"] for each in made.of("LogGroup")}
    options = made.one("VpnConnection").inputs["tunnel2LogOptions"]["cloudwatchLogOptions"]
    assert options["logGroupArn"].endswith(f":log-group:{name}")
    assert options["bgpLogEnabled"] is True


def test_direct_connect_alone_has_a_gateway_and_no_vpn() -> None:
    made, exports = built("direct")
    assert exports["vpn"] is None
    assert not made.of("VpnConnection")
    found = exports["direct_connect"]
    assert found["gateway_id"] == GATEWAY
    assert found["vpn_gateway_id"].startswith("vgw-")
    assert found["association_id"]
    assert found["proposal_id"] is None


def test_gateway_of_another_account_gets_a_proposal() -> None:
    made, exports = built("proposed")
    assert made.of("GatewayAssociationProposal")
    found = exports["direct_connect"]
    assert found["association_id"] is None
    assert found["proposal_id"]


def test_vpn_and_direct_connect_share_the_gateway_of_the_vpc() -> None:
    made, exports = built("both")
    gateway = exports["vpn"]["vpn_gateway_id"]
    assert exports["direct_connect"]["vpn_gateway_id"] == gateway
    assert made.one("GatewayAssociation").inputs["associatedGatewayId"] == gateway
    assert made.one("VpnConnection").inputs["vpnGatewayId"] == gateway


def test_adding_one_connection_to_the_other_changes_no_other_urn() -> None:
    both = {each.urn for each in built("both")[0]}
    assert {each.urn for each in built("bgp")[0]} <= both
    assert {each.urn for each in built("direct")[0]} <= both


@pytest.mark.parametrize("connection", ["bgp", "direct"])
@pytest.mark.parametrize("nat", ["none", "single", "per-zone"])
def test_all_route_tables_of_the_network_lead_to_the_racks(nat: str, connection: str) -> None:
    made, _ = built(connection, nat)
    tables = {each.name.removeprefix("atlas-test-use1-") for each in made.of("RouteTable")}
    found = {each.name.removeprefix("atlas-test-use1-vpn-") for each in made.of("VpnGatewayRoutePropagation")}
    assert found == tables
    assert "public" in tables


def test_static_routes_lead_to_the_network_of_the_racks() -> None:
    made, _ = built("static")
    assert [each.inputs["destinationCidrBlock"] for each in made.of("VpnConnectionRoute")] == ["10.60.0.0/22"]


def test_vpn_is_a_component_of_its_own_and_changes_no_other_urn() -> None:
    without, _ = built("none")
    with_vpn, _ = built("bgp")
    assert not with_vpn.one("gpufleet:network:SiteVpn").parent.count("Network")
    before, after = ({each.urn for each in made} for made in (without, with_vpn))
    assert before <= after


@pytest.mark.parametrize(("zones", "private"), [(["us-east-1a"], 1), (["us-east-1a", "us-east-1b"], 2)])
def test_dns_endpoints_have_two_addresses_in_the_vpc(zones: list[str], private: int) -> None:
    made, exports = built("dns", zones=tuple(zones))
    found = exports["dns"]
    addresses = [ip_address(each) for each in found["inbound_addresses"]]
    assert len(set(addresses)) == 2
    assert all(each in ip_network("10.40.0.0/16") for each in addresses)
    assert found["inbound_endpoint_id"].startswith("rslvr-in-")
    assert found["outbound_endpoint_id"].startswith("rslvr-out-")
    own = {
        subnet.inputs["cidrBlock"]
        for subnet in made.of("Subnet")
        if any(each in ip_network(subnet.inputs["cidrBlock"]) for each in addresses)
        and subnet.name.startswith("atlas-test-use1-private")
    }
    assert len(own) == private


CALLS = ("Vpn", "Vgw", "CustomerGateway", "DirectConnect", "route53resolver")


@pytest.mark.parametrize(
    ("connection", "number"),
    [("bgp", 8), ("static", 9), ("direct", 6), ("proposed", 6), ("both", 10), ("dns", 16)],
)
def test_connection_is_built_by_calls_that_preflight_simulates(connection: str, number: int) -> None:
    of = plan(connection)
    calls: set[str] = set()
    original = BaseClient._make_api_call

    def recorded(client: Any, operation: str, parameters: Any) -> Any:
        calls.add(f"{client.meta.service_model.signing_name}:{operation}")
        return original(client, operation, parameters)

    with emulated_aws(), pytest.MonkeyPatch.context() as patch:
        add_gateway()
        patch.setattr(BaseClient, "_make_api_call", recorded)
        record(lambda: build_fleet(of, SETTINGS), MotoMocks())
    simulated = {
        action
        for needs in region_needs(of)
        for actions in action_sets(needs, "aws", "123456789012")
        for action in actions.actions
    }
    made = {call for call in calls if any(each in call for each in CALLS)}
    assert len(made) == number
    assert made == {
        each
        for each in simulated
        # Tags come with the call that creates.
        if any(part in each for part in CALLS) and not each.endswith(":TagResource")
    }
