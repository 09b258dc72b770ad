"""Direct Connect gateways, their associations with virtual private gateways, and proposals of these.

moto has connections only. A gateway is global: it is seen in all regions. Nothing is at its other end, so
that no route is announced. Sources: Direct Connect API reference (the operations,
DirectConnectClientException) and User Guide ("Virtual private gateway associations", "Quotas").
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from moto.core.base_backend import BackendDict, BaseBackend

from gpufleet.kinds import MOST_GATEWAYS_OF_DIRECT_CONNECT
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

DEFAULT_ASN = 64512
_HOME = "us-east-1"


class GatewayBackend(BaseBackend):  # type: ignore[misc]
    """The gateways of an account with their associations, and the proposals that it made."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.gateways: dict[str, Params] = {}
        self.associations: dict[str, Params] = {}
        self.proposals: dict[str, Params] = {}


gateway_backends = BackendDict(GatewayBackend, "directconnect")


def _of(account: str) -> GatewayBackend:
    found: GatewayBackend = gateway_backends[account][_HOME]
    return found


def _refused(message: str) -> AwsError:
    return AwsError("DirectConnectClientException", message)


def associations_of(vpn_gateway: str) -> Iterator[Params]:
    """Yield the association of a virtual private gateway, whoever has the Direct Connect gateway."""
    for account in list(gateway_backends):
        for each in _of(account).associations.values():
            if each["associatedGateway"]["id"] == vpn_gateway:
                yield each


@operation("directconnect", "CreateDirectConnectGateway")
def create_gateway(call: Call) -> Params:
    """Create a gateway, which is available at once."""
    identity = str(uuid.uuid4())
    gateway = {
        "directConnectGatewayId": identity,
        "directConnectGatewayName": call.params["directConnectGatewayName"],
        "amazonSideAsn": int(call.params.get("amazonSideAsn") or DEFAULT_ASN),
        "ownerAccount": call.account,
        "directConnectGatewayState": "available",
        "tags": call.params.get("tags") or [],
    }
    _of(call.account).gateways[identity] = gateway
    return {"directConnectGateway": gateway}


@operation("directconnect", "DescribeDirectConnectGateways")
def describe_gateways(call: Call) -> Params:
    """The gateways of the account; an unknown id gives none."""
    wanted = call.params.get("directConnectGatewayId")
    every = _of(call.account).gateways.values()
    return {
        "directConnectGateways": [each for each in every if wanted in (None, each["directConnectGatewayId"])]
    }


@operation("directconnect", "DeleteDirectConnectGateway")
def delete_gateway(call: Call) -> Params:
    """Delete a gateway without associations."""
    gateway = _gateway(call.account, call.params["directConnectGatewayId"])
    if any(_associations(call.account, gateway["directConnectGatewayId"])):
        raise _refused("Direct Connect Gateway has associations and cannot be deleted.")
    del _of(call.account).gateways[gateway["directConnectGatewayId"]]
    return {"directConnectGateway": {**gateway, "directConnectGatewayState": "deleted"}}


@operation("directconnect", "CreateDirectConnectGatewayAssociation")
def create_association(call: Call) -> Params:
    """Associate a gateway and a virtual private gateway of the account."""
    given = call.params
    gateway = _gateway(call.account, given["directConnectGatewayId"])
    virtual = given.get("gatewayId") or given.get("virtualGatewayId")
    side = _virtual_gateway(call.account, call.region, str(virtual))
    prefixes = given.get("addAllowedPrefixesToDirectConnectGateway") or [{"cidr": side["cidr"]}]
    return {"directConnectGatewayAssociation": _associate(gateway, side, prefixes)}


@operation("directconnect", "DescribeDirectConnectGatewayAssociations")
def describe_associations(call: Call) -> Params:
    """The associations of the account's gateways, of either kind."""
    given = call.params
    virtual = given.get("associatedGatewayId") or given.get("virtualGatewayId")
    found = [
        each
        for each in _visible(call.account)
        if given.get("associationId") in (None, each["associationId"])
        and given.get("directConnectGatewayId") in (None, each["directConnectGatewayId"])
        and virtual in (None, each["associatedGateway"]["id"])
    ]
    return {"directConnectGatewayAssociations": found}


@operation("directconnect", "UpdateDirectConnectGatewayAssociation")
def update_association(call: Call) -> Params:
    """Change the prefixes that AWS announces."""
    found = _association(call, call.params)
    removed = [each["cidr"] for each in call.params.get("removeAllowedPrefixesToDirectConnectGateway") or ()]
    kept = [each for each in found["allowedPrefixesToDirectConnectGateway"] if each["cidr"] not in removed]
    kept += call.params.get("addAllowedPrefixesToDirectConnectGateway") or []
    found["allowedPrefixesToDirectConnectGateway"] = kept
    return {"directConnectGatewayAssociation": {**found, "associationState": "updating"}}


@operation("directconnect", "DeleteDirectConnectGatewayAssociation")
def delete_association(call: Call) -> Params:
    """End an association: either side may."""
    found = _association(call, call.params)
    del _of(found["directConnectGatewayOwnerAccount"]).associations[found["associationId"]]
    return {"directConnectGatewayAssociation": {**found, "associationState": "disassociating"}}


@operation("directconnect", "CreateDirectConnectGatewayAssociationProposal")
def create_proposal(call: Call) -> Params:
    """Propose an association to the account of a gateway, which the proposer cannot see."""
    given = call.params
    side = _virtual_gateway(call.account, call.region, given["gatewayId"])
    identity = str(uuid.uuid4())
    prefixes = given.get("addAllowedPrefixesToDirectConnectGateway") or [{"cidr": side["cidr"]}]
    proposal = {
        "proposalId": identity,
        "directConnectGatewayId": given["directConnectGatewayId"],
        "directConnectGatewayOwnerAccount": given["directConnectGatewayOwnerAccount"],
        "proposalState": "requested",
        "associatedGateway": side["gateway"],
        "existingAllowedPrefixesToDirectConnectGateway": [],
        "requestedAllowedPrefixesToDirectConnectGateway": prefixes,
    }
    _of(call.account).proposals[identity] = proposal
    return {"directConnectGatewayAssociationProposal": proposal}


@operation("directconnect", "DescribeDirectConnectGatewayAssociationProposals")
def describe_proposals(call: Call) -> Params:
    """The proposals that the account made, or that others made to it."""
    given = call.params
    found = [
        each
        for account in list(gateway_backends)
        for each in _of(account).proposals.values()
        if call.account in (each["directConnectGatewayOwnerAccount"], account)
        and given.get("proposalId") in (None, each["proposalId"])
        and given.get("directConnectGatewayId") in (None, each["directConnectGatewayId"])
        and given.get("associatedGatewayId") in (None, each["associatedGateway"]["id"])
    ]
    return {"directConnectGatewayAssociationProposals": found}


@operation("directconnect", "DeleteDirectConnectGatewayAssociationProposal")
def delete_proposal(call: Call) -> Params:
    """Withdraw a proposal, unless its association exists."""
    found = _proposal(call.account, call.params["proposalId"])
    if any(associations_of(found["associatedGateway"]["id"])):
        raise _refused("The association proposal has been accepted and cannot be deleted.")
    del _of(call.account).proposals[found["proposalId"]]
    return {"directConnectGatewayAssociationProposal": {**found, "proposalState": "deleted"}}


@operation("directconnect", "AcceptDirectConnectGatewayAssociationProposal")
def accept_proposal(call: Call) -> Params:
    """Accept a proposal of another account, with its prefixes or others."""
    given = call.params
    proposer = given["associatedGatewayOwnerAccount"]
    gateway = _gateway(call.account, given["directConnectGatewayId"])
    found = _proposal(proposer, given["proposalId"])
    requested = found["requestedAllowedPrefixesToDirectConnectGateway"]
    prefixes = given.get("overrideAllowedPrefixesToDirectConnectGateway") or requested
    virtual = found["associatedGateway"]
    made = _associate(gateway, _virtual_gateway(proposer, virtual["region"], virtual["id"]), prefixes)
    found["proposalState"] = "accepted"
    found["requestedAllowedPrefixesToDirectConnectGateway"] = prefixes
    return {"directConnectGatewayAssociation": made}


def _associate(gateway: Params, side: Params, prefixes: list[Params]) -> Params:
    owner, identity = gateway["ownerAccount"], gateway["directConnectGatewayId"]
    if any(associations_of(side["gateway"]["id"])):
        raise _refused("Virtual Gateway is already associated with a Direct Connect Gateway.")
    siblings = list(_associations(owner, identity))
    if len(siblings) >= MOST_GATEWAYS_OF_DIRECT_CONNECT:
        raise _refused("Direct Connect Gateway has reached its limit of virtual private gateways.")
    for each in siblings:
        for other in each["allowedPrefixesToDirectConnectGateway"]:
            if any(ip_network(other["cidr"]).overlaps(ip_network(one["cidr"])) for one in prefixes):
                raise _refused(f"The prefixes overlap {other['cidr']} of another association.")
    made = {
        "associationId": str(uuid.uuid4()),
        "associationState": "associated",
        "directConnectGatewayId": identity,
        "directConnectGatewayOwnerAccount": owner,
        "associatedGateway": side["gateway"],
        "allowedPrefixesToDirectConnectGateway": prefixes,
        "virtualGatewayId": side["gateway"]["id"],
        "virtualGatewayRegion": side["gateway"]["region"],
        "virtualGatewayOwnerAccount": side["gateway"]["ownerAccount"],
    }
    _of(owner).associations[str(made["associationId"])] = made
    return {**made, "associationState": "associating"}


def _gateway(account: str, identity: str) -> Params:
    found = _of(account).gateways.get(identity)
    if found is None:
        raise _refused(f"Direct Connect Gateway {identity} does not exist.")
    return found


def _proposal(account: str, identity: str) -> Params:
    found = _of(account).proposals.get(identity)
    if found is None:
        raise _refused(f"Direct Connect Gateway association proposal {identity} is not found.")
    return found


def _associations(account: str, gateway: str) -> Iterator[Params]:
    for each in _of(account).associations.values():
        if each["directConnectGatewayId"] == gateway:
            yield each


def _visible(account: str) -> Iterator[Params]:
    for other in list(gateway_backends):
        for each in _of(other).associations.values():
            if account in (other, each["associatedGateway"]["ownerAccount"]):
                yield each


def _association(call: Call, given: Params) -> Params:
    for each in _visible(call.account):
        both = (each["directConnectGatewayId"], each["associatedGateway"]["id"])
        if given.get("associationId") == each["associationId"] or both == (
            given.get("directConnectGatewayId"),
            given.get("virtualGatewayId"),
        ):
            return each
    raise _refused("Direct Connect Gateway association does not exist.")


def _virtual_gateway(account: str, region: str, identity: str) -> Params:
    """Return the description of a virtual private gateway, and the CIDR of the VPC that it is attached to."""
    from moto.ec2.models import ec2_backends

    backend: Any = ec2_backends[account][region]
    found = backend.vpn_gateways.get(identity)
    if found is None or found.state == "deleted":
        raise _refused(f"Virtual Gateway {identity} does not exist in {region}.")
    attached = list(found.attachments)
    if not attached:
        raise _refused(f"Virtual Gateway {identity} is not attached to a VPC.")
    return {
        "gateway": {
            "id": identity,
            "type": "virtualPrivateGateway",
            "ownerAccount": account,
            "region": region,
        },
        "cidr": backend.get_vpc(attached[0]).cidr_block,
    }
