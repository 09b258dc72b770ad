"""Gateways of site-to-site VPNs: those of routers, those of VPCs, and route propagation.

moto has them without long BGP numbers, propagation and the order of deletions. No router is at the other end
here, so that nothing is propagated. Sources: EC2 API reference (CreateCustomerGateway, AttachVpnGateway,
EnableVgwRoutePropagation) and its error codes (IncorrectState, Gateway.NotAttached).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends.directconnect_gateways import associations_of
from gpufleet.lab.aws.backends.ec2_vpn_connections import AMAZON_ASN, check_known, live_connections
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation


@operation("ec2", "CreateCustomerGateway")
def create_customer_gateway(call: Call) -> Params | Passthrough:
    """Create it; the same request again returns the existing gateway."""
    backend, wanted = ec2.ec2_backend(call), call.params
    asn = wanted.get("BgpAsn") or wanted.get("BgpAsnExtended")
    if not 1 <= int(asn or 0) <= 4294967295:
        raise AwsError("InvalidParameterValue", f"Value ({asn}) for parameter bgpAsn is invalid.")
    for one in backend.customer_gateways.values():
        if one.state == "available" and (one.ip_address, int(one.bgp_asn)) == (
            wanted.get("IpAddress"),
            int(asn or 0),
        ):
            return {"CustomerGateway": _customer_gateway(call, one)}
    made = backend.create_customer_gateway(
        wanted["Type"], wanted.get("IpAddress"), str(asn), ec2.tags_from(call, "customer-gateway")
    )
    return {"CustomerGateway": _customer_gateway(call, made)}


@operation("ec2", "DescribeCustomerGateways")
def describe_customer_gateways(call: Call) -> Params:
    """The gateways, with long BGP numbers in a field of their own."""
    ids = call.params.get("CustomerGatewayIds") or []
    gateways = ec2.ec2_backend(call).customer_gateways
    check_known(ids, gateways, "InvalidCustomerGatewayID.NotFound", "customerGateway")
    shown = [_customer_gateway(call, one) for one in gateways.values() if not ids or one.id in ids]
    fields = {
        "customer-gateway-id": "CustomerGatewayId",
        "ip-address": "IpAddress",
        "state": "State",
        "type": "Type",
    }
    filters = call.params.get("Filters") or []
    return {
        "CustomerGateways": [
            item for item in shown if ec2.matches(call, item["CustomerGatewayId"], item, filters, fields)
        ]
    }


def _customer_gateway(call: Call, one: Any) -> Params:
    asn = "BgpAsn" if int(one.bgp_asn) < 2**31 else "BgpAsnExtended"
    return {
        "CustomerGatewayId": one.id,
        "Type": one.type,
        "IpAddress": one.ip_address,
        "State": one.state,
        asn: str(one.bgp_asn),
        "Tags": ec2.tag_list(call, one.id),
    }


@operation("ec2", "DeleteCustomerGateway")
def delete_customer_gateway(call: Call) -> Passthrough:
    """Reject the deletion while a connection uses the gateway."""
    gateway = call.params["CustomerGatewayId"]
    if any(one.customer_gateway_id == gateway for one in live_connections(ec2.ec2_backend(call))):
        raise AwsError("IncorrectState", f"The customer gateway {gateway} is in use.")
    answer = call.original()
    ec2.forget_tags(call, gateway)
    return answer


@operation("ec2", "CreateVpnGateway")
def create_vpn_gateway(call: Call) -> Passthrough:
    """Create it with AWS's BGP number unless the request has another."""
    answer = call.original()
    made = answer.result["VpnGateway"]
    made.amazon_side_asn = int(made.amazon_side_asn or AMAZON_ASN)
    return answer


@operation("ec2", "AttachVpnGateway")
def attach_vpn_gateway(call: Call) -> Passthrough:
    """A VPC has one virtual private gateway at most."""
    backend, vpc_id = ec2.ec2_backend(call), call.params["VpcId"]
    for other in _attached(backend, vpc_id):
        if other.id != call.params["VpnGatewayId"]:
            raise AwsError(
                "VpnGatewayAttachmentLimitExceeded", f"The vpc {vpc_id} has the gateway {other.id}."
            )
    return call.original()


@operation("ec2", "DetachVpnGateway")
def detach_vpn_gateway(call: Call) -> Passthrough:
    """Detach it; route tables of the VPC take no routes from it any more."""
    answer, backend = call.original(), ec2.ec2_backend(call)
    for table in backend.route_tables.values():
        _propagate(table, call.params["VpnGatewayId"], on=False)
    backend.vpn_gateways[call.params["VpnGatewayId"]].attachments.pop(call.params["VpcId"], None)
    return answer


@operation("ec2", "DeleteVpnGateway")
def delete_vpn_gateway(call: Call) -> Passthrough:
    """Reject the deletion while the gateway is attached, or has connections or an association."""
    backend, gateway = ec2.ec2_backend(call), call.params["VpnGatewayId"]
    found = backend.get_vpn_gateway(gateway)
    connected = any(one.vpn_gateway_id == gateway for one in live_connections(backend))
    if found.attachments or connected or any(associations_of(gateway)):
        raise AwsError("IncorrectState", f"The vpnGateway ID '{gateway}' is in use.")
    answer = call.original()
    ec2.forget_tags(call, gateway)
    return answer


@operation("ec2", "EnableVgwRoutePropagation")
def enable_propagation(call: Call) -> Params:
    """Let a route table of the gateway's VPC take its routes."""
    table, gateway = _table_and_gateway(call)
    if table.vpc_id not in gateway.attachments:
        raise AwsError("Gateway.NotAttached", f"{gateway.id} is not attached to {table.vpc_id}")
    _propagate(table, gateway.id, on=True)
    return {}


@operation("ec2", "DisableVgwRoutePropagation")
def disable_propagation(call: Call) -> Params:
    """Stop it, and remove the routes that came that way."""
    table, gateway = _table_and_gateway(call)
    _propagate(table, gateway.id, on=False)
    return {}


def _table_and_gateway(call: Call) -> tuple[Any, Any]:
    backend = ec2.ec2_backend(call)
    return backend.get_route_table(call.params["RouteTableId"]), backend.get_vpn_gateway(
        call.params["GatewayId"]
    )


def _propagate(table: Any, gateway: str, *, on: bool) -> None:
    others = [one for one in getattr(table, "propagating_vgws", ()) if one["GatewayId"] != gateway]
    table.propagating_vgws = [*others, {"GatewayId": gateway}] if on else others


def _attached(backend: Any, vpc_id: str) -> Iterator[Any]:
    for gateway in backend.vpn_gateways.values():
        if gateway.state != "deleted" and vpc_id in gateway.attachments:
            yield gateway


def has_attached_gateway(backend: Any, vpc_id: str) -> bool:
    """Return whether a VPC has a virtual private gateway."""
    return any(_attached(backend, vpc_id))
