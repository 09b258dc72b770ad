"""The association of a VPC's virtual private gateway with a Direct Connect gateway."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component, Tags


@dataclass(frozen=True, kw_only=True)
class DirectConnectArgs:
    """Inputs of `DirectConnect`.

    `gateway` is the ID of the Direct Connect gateway, `owner` its account if that is another one.
    `vpn_gateway_id` is the virtual private gateway of the VPC, `cidr` the network that AWS announces to the
    routers behind the Direct Connect gateway: that of the VPC.
    """

    gateway: str
    owner: str | None = None
    vpn_gateway_id: pulumi.Input[str]
    cidr: str
    tags: Tags


class DirectConnect(Component):
    """An association with a Direct Connect gateway, or the proposal of one to the gateway's account.

    An account accepts proposals with `aws directconnect accept-direct-connect-gateway-association-proposal`;
    no routes are exchanged before. Direct Connect has no tags for either.
    """

    association_id: pulumi.Output[str] | None
    """None if the association is proposed."""
    proposal_id: pulumi.Output[str] | None
    """None if the gateway is of the same account."""

    def __init__(
        self, name: str, args: DirectConnectArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpufleet:network:DirectConnect", name, args.tags, opts)
        label = f"{name}-direct-connect"
        self.association_id = self.proposal_id = None
        if args.owner is None:
            association = aws.directconnect.GatewayAssociation(
                label,
                dx_gateway_id=args.gateway,
                associated_gateway_id=args.vpn_gateway_id,
                allowed_prefixes=[args.cidr],
                # A virtual private gateway has one association.
                opts=self.child(delete_before_replace=True),
            )
            self.association_id = association.dx_gateway_association_id
            self.register_outputs({"associationId": self.association_id})
            return
        proposal = aws.directconnect.GatewayAssociationProposal(
            label,
            dx_gateway_id=args.gateway,
            dx_gateway_owner_account_id=args.owner,
            associated_gateway_id=args.vpn_gateway_id,
            allowed_prefixes=[args.cidr],
            # The account that accepts it may write other prefixes.
            opts=self.child(ignore_changes=["allowedPrefixes"]),
        )
        self.proposal_id = proposal.id
        self.register_outputs({"proposalId": self.proposal_id})
