"""DirectConnect: an association with a gateway of the account, or a proposal to another account."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpufleet.components.direct_connect import DirectConnect, DirectConnectArgs
from tests.unit.components.recording import Recording, record

NAME = "atlas-prod-use1"
GATEWAY = "5f294f92-bafb-4011-916d-9b0bec1f4f35"
BASE = DirectConnectArgs(gateway=GATEWAY, vpn_gateway_id="vgw-1", cidr="10.40.0.0/16", tags={"team": "ml"})
ASSOCIATION, PROPOSAL = (
    f"aws:directconnect/gatewayAssociation{suffix}:GatewayAssociation{suffix}" for suffix in ("", "Proposal")
)


def connected(**changes: Any) -> Recording:
    return record(lambda: DirectConnect(NAME, dataclasses.replace(BASE, **changes)))


def test_gateway_of_the_account_is_associated_with_the_network_of_the_vpc() -> None:
    made = connected()
    found = made.one(ASSOCIATION)
    assert found.inputs == {
        "dxGatewayId": GATEWAY,
        "associatedGatewayId": "vgw-1",
        "allowedPrefixes": ["10.40.0.0/16"],
    }
    assert not made.of(PROPOSAL)
    # A virtual private gateway has one association.
    assert found.delete_before_replace
    assert found.parent == made.one("gpufleet:network:DirectConnect").urn


def test_association_with_a_gateway_of_another_account_is_proposed() -> None:
    made = connected(owner="444455556666")
    found = made.one(PROPOSAL)
    assert found.inputs == {
        "dxGatewayId": GATEWAY,
        "dxGatewayOwnerAccountId": "444455556666",
        "associatedGatewayId": "vgw-1",
        "allowedPrefixes": ["10.40.0.0/16"],
    }
    assert not made.of(ASSOCIATION)
    # The account that accepts it may write other prefixes.
    assert found.ignore_changes == ("allowedPrefixes",)


@pytest.mark.parametrize(("owner", "key"), [(None, "associationId"), ("444455556666", "proposalId")])
def test_output_is_the_id_of_what_exists(owner: str | None, key: str) -> None:
    (outputs,) = [each for urn, each in connected(owner=owner).outputs.items() if "DirectConnect" in urn]
    assert set(outputs) == {key}
