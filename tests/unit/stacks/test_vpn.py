"""A site with a VPN to the racks, built in moto."""

from __future__ import annotations

from functools import cache
from typing import Any

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
ROUTER = {"gateway": "203.0.113.7", "asn": 65010}


VPNS: dict[str, dict[str, Any]] = {
    "none": {},
    "bgp": {"vpn": ROUTER},
    "static": {"vpn": {**ROUTER, "static": True}},
}


def plan(vpn: str, nat: str = "single") -> FleetPlan:
    network = {"cidr": "10.40.0.0/16", "nat": nat, **VPNS[vpn]}
    site = cloud_site(group("one", "g6.xlarge", on_demand(0, 1)), network=network)
    return build_plan(spec(cloud=[site], onprem=[rack_site(network="10.60.0.0/22")]), CATALOG)


@cache
def built(vpn: str, nat: str = "single") -> tuple[Recording, dict[str, Any]]:
    """The resources of the fleet, and the exports of its site."""
    exports: dict[str, Any] = {}

    def program() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pulumi, "export", exports.__setitem__)
            build_fleet(plan(vpn, nat), SETTINGS)
            pulumi.Output.all(exports["use1"]).apply(lambda found: exports.update(use1=found[0]))

    with emulated_aws():
        made = record(program, MotoMocks())
    return made, exports["use1"]


def test_site_without_a_vpn_has_no_gateway() -> None:
    made, exports = built("none")
    assert not made.of("gpufleet:network:SiteVpn")
    assert not made.of("VpnGateway")
    assert exports["vpn"] is None


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
    }


@pytest.mark.parametrize("nat", ["none", "single", "per-zone"])
def test_all_route_tables_of_the_network_lead_to_the_racks(nat: str) -> None:
    made, _ = built("bgp", nat)
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


@pytest.mark.parametrize("vpn", ["bgp", "static"])
def test_vpn_is_built_by_calls_that_preflight_simulates(vpn: str) -> None:
    of = plan(vpn)
    calls: set[str] = set()
    original = BaseClient._make_api_call

    def recorded(client: Any, operation: str, parameters: Any) -> Any:
        calls.add(f"{client.meta.service_model.service_name}:{operation}")
        return original(client, operation, parameters)

    with emulated_aws(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", recorded)
        record(lambda: build_fleet(of, SETTINGS), MotoMocks())
    simulated = {
        action
        for needs in region_needs(of)
        for actions in action_sets(needs, "aws", "123456789012")
        for action in actions.actions
    }
    made = {call for call in calls if "Vpn" in call or "Vgw" in call or "CustomerGateway" in call}
    assert len(made) == {"bgp": 8, "static": 9}[vpn]
    assert made == {each for each in simulated if "Vpn" in each or "Vgw" in each or "CustomerGateway" in each}
