"""Direct Connect of the emulated AWS: gateways, associations, and proposals between accounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from gpufleet.lab.aws import backends

PROPOSALS = "directConnectGatewayAssociationProposals"
ASSOCIATIONS = "directConnectGatewayAssociations"
OWNER = "444455556666"


class Accounts:
    """Two accounts in this process: the first has VPCs, `owner` Direct Connect gateways."""

    def __init__(self) -> None:
        role = f"arn:aws:iam::{OWNER}:role/network"
        found = boto3.client("sts", **self._keys("x")).assume_role(RoleArn=role, RoleSessionName="test")
        self._owner = found["Credentials"]

    @staticmethod
    def _keys(name: str) -> dict[str, str]:
        return {"region_name": "us-east-1", "aws_access_key_id": name, "aws_secret_access_key": "y"}

    def client(self, service: str, region: str = "us-east-1") -> Any:
        return boto3.client(service, **{**self._keys("x"), "region_name": region})

    def owner(self) -> Any:
        keys = self._owner
        return boto3.client(
            "directconnect",
            region_name="eu-west-1",
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["SessionToken"],
        )

    def virtual_gateway(self, cidr: str = "10.40.0.0/16") -> str:
        ec2 = self.client("ec2")
        vpc = ec2.create_vpc(CidrBlock=cidr)["Vpc"]["VpcId"]
        made: str = ec2.create_vpn_gateway(Type="ipsec.1")["VpnGateway"]["VpnGatewayId"]
        ec2.attach_vpn_gateway(VpnGatewayId=made, VpcId=vpc)
        return made


@pytest.fixture
def accounts() -> Iterator[Accounts]:
    backends.install("ec2", "directconnect")
    with mock_aws():
        yield Accounts()


def new_gateway(client: Any, **more: int) -> str:
    made = client.create_direct_connect_gateway(directConnectGatewayName="dc", **more)
    found: str = made["directConnectGateway"]["directConnectGatewayId"]
    return found


def associate(client: Any, gateway: str, virtual: str, *cidrs: str) -> dict[str, Any]:
    made = client.create_direct_connect_gateway_association(
        directConnectGatewayId=gateway,
        gatewayId=virtual,
        addAllowedPrefixesToDirectConnectGateway=[{"cidr": each} for each in cidrs],
    )
    return dict(made["directConnectGatewayAssociation"])


def associations(client: Any, **wanted: str) -> list[dict[str, Any]]:
    return list(client.describe_direct_connect_gateway_associations(**wanted)[ASSOCIATIONS])


def test_gateway_is_seen_in_all_regions_and_by_its_account_only(accounts: Accounts) -> None:
    made = new_gateway(accounts.client("directconnect"), amazonSideAsn=64600)
    elsewhere = accounts.client("directconnect", "eu-central-1")
    (found,) = elsewhere.describe_direct_connect_gateways()["directConnectGateways"]
    assert (found["directConnectGatewayId"], found["amazonSideAsn"]) == (made, 64600)
    assert found["directConnectGatewayState"] == "available"
    asked = accounts.owner().describe_direct_connect_gateways(directConnectGatewayId=made)
    assert asked["directConnectGateways"] == []


def test_association_announces_the_network_of_the_vpc_unless_it_has_prefixes(accounts: Accounts) -> None:
    client = accounts.client("directconnect")
    gateway = new_gateway(client)
    for index, prefixes in enumerate(([], ["10.32.0.0/11"])):
        virtual = accounts.virtual_gateway(f"10.{9 + 40 * index}.0.0/16")
        assert associate(client, gateway, virtual, *prefixes)["associationState"] == "associating"
        (found,) = associations(client, associatedGatewayId=virtual)
        assert found["associationState"] == "associated"
        assert found["allowedPrefixesToDirectConnectGateway"] == [{"cidr": ["10.9.0.0/16", *prefixes][-1]}]


def test_virtual_gateway_has_one_association_and_stays_while_it_has(accounts: Accounts, refused: Any) -> None:
    client, ec2 = accounts.client("directconnect"), accounts.client("ec2")
    first, second, virtual = new_gateway(client), new_gateway(client), accounts.virtual_gateway()
    associate(client, first, virtual)
    with refused("DirectConnectClientException"):
        associate(client, second, virtual)
    with refused("DirectConnectClientException"):
        client.delete_direct_connect_gateway(directConnectGatewayId=first)
    vpc = ec2.describe_vpn_gateways(VpnGatewayIds=[virtual])["VpnGateways"][0]["VpcAttachments"][0]["VpcId"]
    ec2.detach_vpn_gateway(VpnGatewayId=virtual, VpcId=vpc)
    with refused("IncorrectState"):
        ec2.delete_vpn_gateway(VpnGatewayId=virtual)
    client.delete_direct_connect_gateway_association(directConnectGatewayId=first, virtualGatewayId=virtual)
    assert associations(client) == []
    ec2.delete_vpn_gateway(VpnGatewayId=virtual)
    client.delete_direct_connect_gateway(directConnectGatewayId=first)


def test_gateway_refuses_overlapping_networks(accounts: Accounts, refused: Any) -> None:
    client = accounts.client("directconnect")
    gateway = new_gateway(client)
    associate(client, gateway, accounts.virtual_gateway(), "10.40.0.0/16")
    with refused("DirectConnectClientException"):
        associate(client, gateway, accounts.virtual_gateway("10.41.0.0/16"), "10.40.0.0/15")


@pytest.mark.parametrize("what", ["gateway", "virtual gateway", "attachment"])
def test_association_of_something_that_is_not_there_is_refused(
    accounts: Accounts, refused: Any, what: str
) -> None:
    client = accounts.client("directconnect")
    gateway, virtual = new_gateway(client), accounts.virtual_gateway()
    if what == "gateway":
        gateway = "5f294f92-bafb-4011-916d-9b0bec1f4f35"
    elif what == "virtual gateway":
        virtual = "vgw-0123456789abcdef0"
    else:
        virtual = accounts.client("ec2").create_vpn_gateway(Type="ipsec.1")["VpnGateway"]["VpnGatewayId"]
    with refused("DirectConnectClientException"):
        associate(client, gateway, virtual)


def test_proposal_becomes_an_association_when_the_other_account_accepts_it(
    accounts: Accounts, refused: Any
) -> None:
    own, other = accounts.client("directconnect"), accounts.owner()
    gateway, virtual = new_gateway(other), accounts.virtual_gateway()
    made = own.create_direct_connect_gateway_association_proposal(
        directConnectGatewayId=gateway,
        directConnectGatewayOwnerAccount=OWNER,
        gatewayId=virtual,
        addAllowedPrefixesToDirectConnectGateway=[{"cidr": "10.40.0.0/16"}],
    )["directConnectGatewayAssociationProposal"]
    assert made["proposalState"] == "requested"
    assert associations(own) == []
    (seen,) = other.describe_direct_connect_gateway_association_proposals()[PROPOSALS]
    assert seen == made
    other.accept_direct_connect_gateway_association_proposal(
        directConnectGatewayId=gateway,
        proposalId=made["proposalId"],
        associatedGatewayOwnerAccount="123456789012",
    )
    (found,) = associations(own)
    assert (found["directConnectGatewayOwnerAccount"], found["virtualGatewayId"]) == (OWNER, virtual)
    (accepted,) = own.describe_direct_connect_gateway_association_proposals(proposalId=made["proposalId"])[
        PROPOSALS
    ]
    assert accepted["proposalState"] == "accepted"
    with refused("DirectConnectClientException"):
        own.delete_direct_connect_gateway_association_proposal(proposalId=made["proposalId"])
    # Either side may end it.
    own.delete_direct_connect_gateway_association(directConnectGatewayId=gateway, virtualGatewayId=virtual)
    assert associations(other) == []
    own.delete_direct_connect_gateway_association_proposal(proposalId=made["proposalId"])
    assert own.describe_direct_connect_gateway_association_proposals()[PROPOSALS] == []
