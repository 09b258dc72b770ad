"""Gateways of site-to-site VPNs, of routers and of VPCs, and the propagation of their routes."""

from __future__ import annotations

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import Aws, Handler, only
from gpufleet.lab.aws.provider.resources.ec2 import await_state, find, remove, retag, tag_spec
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle, until
from gpufleet.lab.aws.provider.wire import Props

_IN_USE = "IncorrectState"
TIMEOUT_S = 600.0
ENDED = {"deleted", "deleting"}


def live(found: Props | None) -> Props | None:
    """Return a description unless it is of a deleted resource, which EC2 shows for a while."""
    return None if found is None or found.get("State") in ENDED else found


class CustomerGateway(Handler):
    """aws.ec2.CustomerGateway."""

    pulumi_type = "aws:ec2/customerGateway:CustomerGateway"
    force_new = frozenset({"bgpAsn", "bgpAsnExtended", "certificateArn", "deviceName", "ipAddress", "type"})

    def check(self, inputs: Props) -> list[Problem]:
        """Check that there is one BGP number."""
        if bool(inputs.get("bgpAsn")) == bool(inputs.get("bgpAsnExtended")):
            return [Problem("bgpAsn", "set one of bgpAsn and bgpAsnExtended")]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the gateway and wait until it is available."""
        wanted = only(inputs, "bgpAsn", "bgpAsnExtended", "certificateArn", "deviceName", "ipAddress", "type")
        made = aws.send("ec2", "CreateCustomerGateway", wanted, None, **tag_spec("customer-gateway", inputs))
        rid = str(made["CustomerGateway"]["CustomerGatewayId"])
        with keep_on_failure(rid):
            await_state(lambda: self._find(aws, rid), "State", {"available"}, timeout_s=TIMEOUT_S, what=rid)
        return rid

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return live(
            find(aws.client("ec2").describe_customer_gateways, "CustomerGateways", CustomerGatewayIds=[rid])
        )

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The gateway as described."""
        found = self._find(aws, rid)
        if found is None:
            return None
        out = self.decode(found)
        return {**out, "tags": out.get("tags", {}), "arn": aws.arn("ec2", f"customer-gateway/{rid}")}

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change tags in place."""
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the gateway once no connection uses it."""
        ec2 = aws.client("ec2")
        remove(
            lambda: settle(
                lambda: ec2.delete_customer_gateway(CustomerGatewayId=rid), codes=_IN_USE, timeout_s=5.0
            ),
            lambda: self._find(aws, rid),
            rid,
        )


class VpnGateway(Handler):
    """aws.ec2.VpnGateway: a virtual private gateway, attached to a VPC."""

    pulumi_type = "aws:ec2/vpnGateway:VpnGateway"
    force_new = frozenset({"amazonSideAsn", "availabilityZone"})
    computed = frozenset({"amazonSideAsn", "vpcId"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the gateway and attach it."""
        made = aws.send(
            "ec2",
            "CreateVpnGateway",
            only(inputs, "amazonSideAsn", "availabilityZone"),
            None,
            Type="ipsec.1",
            **tag_spec("vpn-gateway", inputs),
        )
        rid = str(made["VpnGateway"]["VpnGatewayId"])
        with keep_on_failure(rid):
            if inputs.get("vpcId"):
                self._attach(aws, rid, str(inputs["vpcId"]))
        return rid

    def _attach(self, aws: Aws, rid: str, vpc: str) -> None:
        ec2 = aws.client("ec2")
        settle(
            lambda: ec2.attach_vpn_gateway(VpnGatewayId=rid, VpcId=vpc),
            codes=r"Invalid.*\.NotFound",
            timeout_s=5.0,
        )
        until(
            lambda: self._vpc(aws, rid) == vpc or None,
            timeout_s=TIMEOUT_S,
            what=f"{rid} becoming attached to {vpc}",
        )

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return live(find(aws.client("ec2").describe_vpn_gateways, "VpnGateways", VpnGatewayIds=[rid]))

    def _vpc(self, aws: Aws, rid: str) -> str | None:
        for attachment in (self._find(aws, rid) or {}).get("VpcAttachments") or ():
            if attachment["State"] == "attached":
                return str(attachment["VpcId"])
        return None

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The gateway and its VPC."""
        found = self._find(aws, rid)
        if found is None:
            return None
        out = self.decode(found)
        return {
            **out,
            "tags": out.get("tags", {}),
            "vpcId": self._vpc(aws, rid),
            "arn": aws.arn("ec2", f"vpn-gateway/{rid}"),
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Move the gateway to another VPC, and change its tags."""
        if "vpcId" in changed:
            self._detach(aws, rid)
            if new.get("vpcId"):
                self._attach(aws, rid, str(new["vpcId"]))
        retag(aws, rid, old, new)

    def _detach(self, aws: Aws, rid: str) -> None:
        vpc = self._vpc(aws, rid)
        if vpc is None:
            return
        aws.client("ec2").detach_vpn_gateway(VpnGatewayId=rid, VpcId=vpc)
        until(
            lambda: self._vpc(aws, rid) is None or None,
            timeout_s=TIMEOUT_S,
            what=f"{rid} becoming detached from {vpc}",
        )

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Detach, then delete once no connection uses it."""
        self._detach(aws, rid)
        ec2 = aws.client("ec2")
        remove(
            lambda: settle(lambda: ec2.delete_vpn_gateway(VpnGatewayId=rid), codes=_IN_USE, timeout_s=5.0),
            lambda: self._find(aws, rid),
            rid,
        )


class VpnGatewayRoutePropagation(Handler):
    """aws.ec2.VpnGatewayRoutePropagation: a route table takes the routes of a gateway."""

    pulumi_type = "aws:ec2/vpnGatewayRoutePropagation:VpnGatewayRoutePropagation"
    force_new = frozenset({"routeTableId", "vpnGatewayId"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Turn the propagation on; the attachment of the gateway may be seconds old."""
        gateway, table = inputs["vpnGatewayId"], inputs["routeTableId"]
        settle(
            lambda: aws.client("ec2").enable_vgw_route_propagation(GatewayId=gateway, RouteTableId=table),
            codes="Gateway.NotAttached",
            timeout_s=5.0,
        )
        # The real provider's id.
        return f"{gateway}_{table}"

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The propagation, if the table has it."""
        gateway, _, table = rid.partition("_")
        found = find(aws.client("ec2").describe_route_tables, "RouteTables", RouteTableIds=[table])
        if any(one["GatewayId"] == gateway for one in (found or {}).get("PropagatingVgws") or ()):
            return {"vpnGatewayId": gateway, "routeTableId": table}
        return None

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Turn it off."""
        gateway, _, table = rid.partition("_")
        aws.client("ec2").disable_vgw_route_propagation(GatewayId=gateway, RouteTableId=table)


HANDLERS = (CustomerGateway(), VpnGateway(), VpnGatewayRoutePropagation())
