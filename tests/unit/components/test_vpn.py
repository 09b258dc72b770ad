"""SiteVpn: its tunnels, its routes, and what it keeps out of its outputs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpufleet.components.vpn import SiteVpn, SiteVpnArgs
from tests.unit.components.recording import Recording, record

NAME = "atlas-prod-use1"
BASE = SiteVpnArgs(
    vpc_id="vpc-1",
    route_table_ids={"public": "rtb-p", "private-us-east-1a": "rtb-a"},
    gateway="203.0.113.7",
    asn=65010,
    networks=("10.60.0.0/22", "10.64.0.0/22"),
    tags={"team": "ml"},
)


def vpn(**changes: Any) -> Recording:
    return record(lambda: SiteVpn(NAME, dataclasses.replace(BASE, **changes)))


@pytest.fixture(scope="module")
def dynamic() -> Recording:
    return vpn()


def test_router_and_gateway_have_their_bgp_numbers(dynamic: Recording) -> None:
    router = dynamic.one("CustomerGateway").inputs
    assert (router["ipAddress"], router["bgpAsn"], router["type"]) == ("203.0.113.7", "65010", "ipsec.1")
    gateway = dynamic.one("VpnGateway").inputs
    assert (gateway["vpcId"], gateway["amazonSideAsn"]) == ("vpc-1", "64512")


@pytest.mark.parametrize(
    ("asn", "short", "long"), [(2**31 - 1, "2147483647", None), (4200000000, None, "4200000000")]
)
def test_long_bgp_number_is_in_its_own_field(asn: int, short: str | None, long: str | None) -> None:
    router = vpn(asn=asn).one("CustomerGateway").inputs
    assert (router.get("bgpAsn"), router.get("bgpAsnExtended")) == (short, long)


@pytest.mark.parametrize("tunnel", [1, 2])
def test_tunnels_take_ikev2_and_strong_algorithms_only(dynamic: Recording, tunnel: int) -> None:
    options = dynamic.one("VpnConnection").inputs
    assert options[f"tunnel{tunnel}IkeVersions"] == ["ikev2"]
    for phase in (1, 2):
        prefix = f"tunnel{tunnel}Phase{phase}"
        assert set(options[f"{prefix}EncryptionAlgorithms"]) == {"AES256", "AES256-GCM-16"}
        assert "SHA1" not in options[f"{prefix}IntegrityAlgorithms"]
        groups = {int(number) for number in options[f"{prefix}DhGroupNumbers"]}
        assert groups == {15, 16, 19, 20, 21}


@pytest.mark.parametrize("tunnel", [1, 2])
def test_aws_starts_tunnels_and_restarts_dead_ones(dynamic: Recording, tunnel: int) -> None:
    options = dynamic.one("VpnConnection").inputs
    assert options[f"tunnel{tunnel}StartupAction"] == "start"
    assert options[f"tunnel{tunnel}DpdTimeoutAction"] == "restart"


def test_keys_are_made_by_aws_and_are_no_outputs(dynamic: Recording) -> None:
    inputs = dynamic.one("VpnConnection").inputs
    assert not [key for key in inputs if "PresharedKey" in key]
    (outputs,) = [each for urn, each in dynamic.outputs.items() if "SiteVpn" in urn]
    assert set(outputs) == {"vpnConnectionId", "customerGatewayId", "vpnGatewayId", "tunnelAddresses"}


def test_without_a_router_there_is_the_gateway_only() -> None:
    made = vpn(gateway=None)
    assert made.one("VpnGateway").inputs["vpcId"] == "vpc-1"
    assert len(made.of("VpnGatewayRoutePropagation")) == 2
    for kind in ("CustomerGateway", "VpnConnection", "VpnConnectionRoute"):
        assert not made.of(kind)
    (outputs,) = [each for urn, each in made.outputs.items() if "SiteVpn" in urn]
    assert set(outputs) == {"vpnGatewayId"}


def test_every_route_table_takes_the_routes(dynamic: Recording) -> None:
    found = {each.name: each.inputs for each in dynamic.of("VpnGatewayRoutePropagation")}
    assert {name: each["routeTableId"] for name, each in found.items()} == {
        f"{NAME}-vpn-public": "rtb-p",
        f"{NAME}-vpn-private-us-east-1a": "rtb-a",
    }
    assert {each["vpnGatewayId"] for each in found.values()} == {f"{NAME}-vpn-id"}


def test_bgp_has_no_static_routes(dynamic: Recording) -> None:
    assert dynamic.one("VpnConnection").inputs["staticRoutesOnly"] is False
    assert not dynamic.of("VpnConnectionRoute")


def test_static_routes_lead_to_the_networks() -> None:
    made = vpn(static=True)
    assert made.one("VpnConnection").inputs["staticRoutesOnly"] is True
    # In the order of their requests, which is not fixed.
    routes = sorted(each.inputs["destinationCidrBlock"] for each in made.of("VpnConnectionRoute"))
    assert routes == sorted(BASE.networks)


def test_connection_is_deleted_before_another_to_the_same_address(dynamic: Recording) -> None:
    assert dynamic.one("VpnConnection").delete_before_replace


def test_gateways_and_connection_are_tagged_children(dynamic: Recording) -> None:
    parent = dynamic.one("gpufleet:network:SiteVpn")
    for kind in ("CustomerGateway", "VpnGateway", "VpnConnection"):
        made = dynamic.one(kind)
        assert made.inputs["tags"] == {"team": "ml", "Name": f"{NAME}-vpn"}
        assert made.parent == parent.urn


@pytest.mark.parametrize("tunnel", [1, 2])
def test_tunnels_without_logs_say_so(dynamic: Recording, tunnel: int) -> None:
    """AWS keeps options that a request lacks, so that logs would stay on."""
    found = dynamic.one("VpnConnection").inputs[f"tunnel{tunnel}LogOptions"]
    assert found == {"cloudwatchLogOptions": {"logEnabled": False}}
    assert not dynamic.of("LogGroup")
    assert not dynamic.of("Key")


@pytest.mark.parametrize("static", [False, True])
def test_logs_are_encrypted_and_kept_for_their_time(static: bool) -> None:
    made = vpn(log_retention_days=365, static=static)
    group = made.one("LogGroup", f"{NAME}-vpn-logs")
    assert group.inputs["name"] == f"/aws/vendedlogs/gpufleet/{NAME}/vpn"
    assert group.inputs["retentionInDays"] == 365
    key = made.one("Key", f"{NAME}-vpn-logs")
    assert group.inputs["kmsKeyId"].endswith(f"/{key.name}")
    assert group.inputs["name"] in key.inputs["policy"]
    for tunnel in (1, 2):
        options = made.one("VpnConnection").inputs[f"tunnel{tunnel}LogOptions"]["cloudwatchLogOptions"]
        assert options["logEnabled"] is True
        assert options["logGroupArn"].endswith(f"/{group.name}")
        assert options.get("bgpLogEnabled", False) is not static
        assert ("bgpLogGroupArn" in options) is not static
