"""Associations of virtual private gateways with Direct Connect gateways, and proposals of these."""

from __future__ import annotations

from typing import Any

from gpufleet.lab.aws.provider.errors import is_missing, keep_on_failure, message_of
from gpufleet.lab.aws.provider.handler import Aws, Handler
from gpufleet.lab.aws.provider.resources.ec2 import await_state
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import until_gone
from gpufleet.lab.aws.provider.wire import Props

TIMEOUT_S = 1800.0
_ENDED = "disassociated"


def _routes(cidrs: list[str]) -> list[dict[str, str]]:
    return [{"cidr": each} for each in sorted(cidrs)]


def _prefixes(found: list[dict[str, Any]] | None) -> list[str]:
    return sorted(str(each["cidr"]) for each in found or ())


def _association(aws: Aws, gateway: str, virtual: str) -> Props | None:
    listed = aws.client("directconnect").describe_direct_connect_gateway_associations(
        directConnectGatewayId=gateway, associatedGatewayId=virtual
    )
    for each in listed["directConnectGatewayAssociations"]:
        if each["associationState"] != _ENDED:
            return dict(each)
    return None


class GatewayAssociation(Handler):
    """aws.directconnect.GatewayAssociation, with a virtual private gateway of the same account."""

    pulumi_type = "aws:directconnect/gatewayAssociation:GatewayAssociation"
    force_new = frozenset({"associatedGatewayId", "associatedGatewayOwnerAccountId", "dxGatewayId"})
    computed = frozenset({"allowedPrefixes", "associatedGatewayOwnerAccountId"})

    def check(self, inputs: Props) -> list[Problem]:
        """Reject what the emulated AWS lacks: acceptances of proposals."""
        if inputs.get("proposalId") or not inputs.get("associatedGatewayId"):
            return [Problem("associatedGatewayId", "the sandbox accepts no proposals: set it")]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the association and wait until routes are exchanged."""
        gateway, virtual = inputs["dxGatewayId"], inputs["associatedGatewayId"]
        given = inputs.get("allowedPrefixes")
        aws.client("directconnect").create_direct_connect_gateway_association(
            directConnectGatewayId=gateway,
            gatewayId=virtual,
            **({"addAllowedPrefixesToDirectConnectGateway": _routes(given)} if given else {}),
        )
        # The form in which pulumi_aws imports it.
        rid = f"{gateway}/{virtual}"
        with keep_on_failure(rid):
            self._await(aws, rid)
        return rid

    def _await(self, aws: Aws, rid: str) -> None:
        await_state(
            lambda: self._find(aws, rid), "associationState", {"associated"}, timeout_s=TIMEOUT_S, what=rid
        )

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        gateway, _, virtual = rid.partition("/")
        return _association(aws, gateway, virtual)

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The association as described."""
        found = self._find(aws, rid)
        if found is None:
            return None
        return {
            "allowedPrefixes": _prefixes(found["allowedPrefixesToDirectConnectGateway"]),
            "associatedGatewayId": found["associatedGateway"]["id"],
            "associatedGatewayOwnerAccountId": found["associatedGateway"]["ownerAccount"],
            "associatedGatewayType": found["associatedGateway"]["type"],
            "dxGatewayAssociationId": found["associationId"],
            "dxGatewayId": found["directConnectGatewayId"],
            "dxGatewayOwnerAccountId": found["directConnectGatewayOwnerAccount"],
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change the prefixes that AWS announces."""
        if "allowedPrefixes" not in changed:
            return
        before, after = set(old.get("allowedPrefixes") or ()), set(new.get("allowedPrefixes") or ())
        aws.client("directconnect").update_direct_connect_gateway_association(
            associationId=old["dxGatewayAssociationId"],
            addAllowedPrefixesToDirectConnectGateway=_routes([*(after - before)]),
            removeAllowedPrefixesToDirectConnectGateway=_routes([*(before - after)]),
        )
        self._await(aws, rid)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """End the association and wait until it is gone."""
        try:
            aws.client("directconnect").delete_direct_connect_gateway_association(
                associationId=state["dxGatewayAssociationId"]
            )
        except Exception as error:
            if "does not exist" not in message_of(error):
                raise
        until_gone(lambda: self._find(aws, rid), timeout_s=TIMEOUT_S, what=f"the end of {rid}")


class GatewayAssociationProposal(Handler):
    """aws.directconnect.GatewayAssociationProposal, to the account of a Direct Connect gateway."""

    pulumi_type = "aws:directconnect/gatewayAssociationProposal:GatewayAssociationProposal"
    force_new = frozenset(
        {"allowedPrefixes", "associatedGatewayId", "dxGatewayId", "dxGatewayOwnerAccountId"}
    )
    computed = frozenset({"allowedPrefixes"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the proposal. Its acceptance is the other account's."""
        given = inputs.get("allowedPrefixes")
        made = aws.client("directconnect").create_direct_connect_gateway_association_proposal(
            directConnectGatewayId=inputs["dxGatewayId"],
            directConnectGatewayOwnerAccount=inputs["dxGatewayOwnerAccountId"],
            gatewayId=inputs["associatedGatewayId"],
            **({"addAllowedPrefixesToDirectConnectGateway": _routes(given)} if given else {}),
        )
        return str(made["directConnectGatewayAssociationProposal"]["proposalId"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The proposal, or the association that it became: AWS deletes accepted proposals after some time."""
        listed = aws.client("directconnect").describe_direct_connect_gateway_association_proposals(
            proposalId=rid
        )["directConnectGatewayAssociationProposals"]
        found = next((each for each in listed if each["proposalState"] != "deleted"), None)
        prefixes = "requestedAllowedPrefixesToDirectConnectGateway"
        if found is None:
            gateways = [str(state.get(key, "")) for key in ("dxGatewayId", "associatedGatewayId")]
            found = _association(aws, *gateways) if all(gateways) else None
            prefixes = "allowedPrefixesToDirectConnectGateway"
        if found is None:
            return None
        return {
            "allowedPrefixes": _prefixes(found[prefixes]),
            "associatedGatewayId": found["associatedGateway"]["id"],
            "associatedGatewayOwnerAccountId": found["associatedGateway"]["ownerAccount"],
            "associatedGatewayType": found["associatedGateway"]["type"],
            "dxGatewayId": found["directConnectGatewayId"],
            "dxGatewayOwnerAccountId": found["directConnectGatewayOwnerAccount"],
        }

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Withdraw the proposal."""
        try:
            aws.client("directconnect").delete_direct_connect_gateway_association_proposal(proposalId=rid)
        except Exception as error:
            if "is not found" not in message_of(error) and not is_missing(error):
                raise


HANDLERS = (GatewayAssociation(), GatewayAssociationProposal())
