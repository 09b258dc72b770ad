"""Direct Connect gateways that a fleet file names: account, state, room and BGP number."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from gpufleet.account.needs import region_needs
from gpufleet.account.quotas import quota_needs
from gpufleet.catalog import load_catalog
from gpufleet.plan.models import FleetPlan

from .conftest import OWN_TAGS, REGION, Account, check, fleet, group, only

GATEWAY = "5f294f92-bafb-4011-916d-9b0bec1f4f35"
PATH = ("cloud", 0, "network", "direct_connect")


def connected(gateway: str = GATEWAY, vpn: dict[str, Any] | None = None, **more: str) -> FleetPlan:
    network: dict[str, Any] = {
        "cidr": "10.40.0.0/16",
        "direct_connect": {"gateway": gateway, "networks": ["10.60.0.0/22"], **more},
    }
    return fleet(group(), network=network | ({} if vpn is None else {"vpn": vpn}))


@pytest.fixture
def gateway(account: Account) -> str:
    """A gateway of the account."""
    made = boto3.client("directconnect", region_name=REGION).create_direct_connect_gateway(
        directConnectGatewayName="dc", amazonSideAsn=64600
    )
    found: str = made["directConnectGateway"]["directConnectGatewayId"]
    return found


def associated(account: Account, *virtual_gateways: str) -> None:
    """Let the gateway have these virtual private gateways, and one that is leaving."""
    states = [(each, "associated") for each in virtual_gateways] + [("vgw-leaving", "disassociating")]
    account.answers["directconnect:DescribeDirectConnectGatewayAssociations"] = lambda _: {
        "directConnectGatewayAssociations": [
            {"associatedGateway": {"id": identity}, "associationState": state} for identity, state in states
        ]
    }


def test_available_gateway_passes(account: Account, gateway: str) -> None:
    found = account.preflight(connected(gateway))
    assert found.status == "pass"
    (fact,) = check(found, "direct-connect").facts
    assert fact == {"gateway": gateway, "owner": None, "state": "available", "asn": 64600}


def test_fleet_without_direct_connect_asks_nothing_of_it(account: Account) -> None:
    found = account.preflight(fleet(group()))
    assert "direct-connect" not in [each.check for each in found.checks]
    assert not [call for call in account.calls if call.startswith("directconnect")]


def test_gateway_that_does_not_exist_is_an_error(account: Account) -> None:
    found = only(account.preflight(connected()), "direct-connect-gateway")
    assert (found.path, found.value, found.severity) == ((*PATH, "gateway"), GATEWAY, "error")
    assert "'owner' if it is of another account" in found.remedy


@pytest.mark.parametrize("state", ["pending", "deleting"])
def test_gateway_that_is_not_available_is_an_error(account: Account, state: str) -> None:
    answer = {"directConnectGatewayId": GATEWAY, "directConnectGatewayState": state, "amazonSideAsn": 64600}
    account.answers["directconnect:DescribeDirectConnectGateways"] = lambda _: {
        "directConnectGateways": [answer]
    }
    found = only(account.preflight(connected()), "direct-connect-state")
    assert f"is {state}, not available" in found.message


def test_gateway_of_another_account_is_not_looked_up(account: Account) -> None:
    found = account.preflight(connected(owner="444455556666"))
    assert found.status == "pass"
    (fact,) = check(found, "direct-connect").facts
    assert (fact["owner"], fact["state"]) == ("444455556666", None)


def test_owner_is_not_the_account_itself(account: Account, gateway: str) -> None:
    found = only(account.preflight(connected(gateway, owner="123456789012")), "direct-connect-owner")
    assert (found.path, found.remedy) == ((*PATH, "owner"), "remove 'owner'")


def test_gateway_with_room_passes(account: Account, gateway: str) -> None:
    associated(account, *(f"vgw-{index}" for index in range(19)))
    assert account.preflight(connected(gateway)).status == "pass"


def test_gateway_with_20_others_has_no_room(account: Account, gateway: str) -> None:
    associated(account, *(f"vgw-{index}" for index in range(20)))
    found = only(account.preflight(connected(gateway)), "direct-connect-full")
    assert "has 20 other gateways, and the sites in us-east-1 need 1: it takes at most 20" in found.message


def test_association_of_the_fleet_itself_is_no_other(account: Account, gateway: str) -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    own = ec2.create_vpn_gateway(Type="ipsec.1")["VpnGateway"]["VpnGatewayId"]
    ec2.create_tags(Resources=[own], Tags=OWN_TAGS)
    associated(account, own, *(f"vgw-{index}" for index in range(19)))
    assert account.preflight(connected(gateway)).status == "pass"


def test_number_of_the_gateway_is_not_that_of_the_router(account: Account, gateway: str) -> None:
    vpn = {"gateway": "203.0.113.7", "networks": ["10.60.0.0/22"], "asn": 64600}
    found = only(account.preflight(connected(gateway, vpn)), "direct-connect-asn")
    assert (found.path, found.severity) == (("cloud", 0, "network", "vpn", "asn"), "warning")
    assert not account.preflight(connected(gateway, {**vpn, "asn": 64601})).findings


def test_refused_call_is_not_checked(account: Account, gateway: str) -> None:
    account.refused["directconnect:DescribeDirectConnectGateways"] = "AccessDeniedException"
    assert check(account.preflight(connected(gateway)), "direct-connect").status == "not-checked"


def test_direct_connect_needs_a_virtual_gateway_and_no_connection() -> None:
    (needs,) = region_needs(connected())
    found = {each.quota.code: each.path for each in quota_needs(needs, load_catalog())}
    assert found["L-7029FAB6"] == PATH
    assert "L-3E6EC3A3" not in found
