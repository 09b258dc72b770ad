"""Connections of site-to-site VPNs: tunnels with their options, static routes, a router's setup.

moto has connections without these. No router is at the other end here: tunnels stay down. Sources: EC2 API
reference (CreateVpnConnection, ModifyVpnConnection, ModifyVpnTunnelOptions), its error codes
(InvalidCustomerGateway.DuplicateIpAddress), and the Site-to-Site VPN User Guide, "Tunnel options".
"""

from __future__ import annotations

import datetime as dt
import secrets
import string
from typing import Any
from xml.etree import ElementTree

from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation

AMAZON_ASN = 64512
"""The BGP number of a virtual private gateway that names none."""

_GCM = ("AES128-GCM-16", "AES256-GCM-16")
_HASHES = ("SHA1", "SHA2-256", "SHA2-384", "SHA2-512")
_VALID: dict[str, tuple[Any, ...]] = {
    "IKEVersions": ("ikev1", "ikev2"),
    "Phase1EncryptionAlgorithms": ("AES128", "AES256", *_GCM),
    "Phase2EncryptionAlgorithms": ("AES128", "AES256", *_GCM),
    "Phase1IntegrityAlgorithms": _HASHES,
    "Phase2IntegrityAlgorithms": _HASHES,
    "Phase1DHGroupNumbers": (2, *range(14, 25)),
    "Phase2DHGroupNumbers": (2, 5, *range(14, 25)),
    "StartupAction": ("add", "start"),
    "DPDTimeoutAction": ("clear", "none", "restart"),
}
_SHOWN = {
    "IKEVersions": "IkeVersions",
    "DPDTimeoutAction": "DpdTimeoutAction",
    "DPDTimeoutSeconds": "DpdTimeoutSeconds",
}
"""Tunnel options whose names in answers are not those of requests."""

_CONNECTION_FILTERS = {
    "vpn-connection-id": "VpnConnectionId",
    "customer-gateway-id": "CustomerGatewayId",
    "vpn-gateway-id": "VpnGatewayId",
    "state": "State",
    "type": "Type",
}


@operation("ec2", "CreateVpnConnection")
def create_vpn_connection(call: Call) -> Params:
    """Create a connection with two tunnels; AWS makes keys and addresses that the request lacks."""
    backend, wanted = ec2.ec2_backend(call), call.params
    if wanted["Type"] != "ipsec.1":
        raise AwsError("InvalidParameterValue", f"Value ({wanted['Type']}) for parameter type is invalid.")
    router = backend.get_customer_gateway(wanted["CustomerGatewayId"])
    for one in live_connections(backend):
        other = backend.get_customer_gateway(one.customer_gateway_id)
        if other.ip_address == router.ip_address:
            message = f"Conflict among chosen gateway IP addresses: {one.id} has {router.ip_address}."
            raise AwsError("InvalidCustomerGateway.DuplicateIpAddress", message)
    if wanted.get("VpnGatewayId"):
        backend.get_vpn_gateway(wanted["VpnGatewayId"])
    options = wanted.get("Options") or {}
    given = options.get("TunnelOptions") or []
    for each in given:
        _check_tunnel(call, each)
    number = len(backend.vpn_connections)
    made = backend.create_vpn_connection(
        wanted["Type"],
        wanted["CustomerGatewayId"],
        vpn_gateway_id=wanted.get("VpnGatewayId"),
        transit_gateway_id=wanted.get("TransitGatewayId"),
        tags=ec2.tags_from(call, "vpn-connection"),
    )
    made.options = {
        "EnableAcceleration": False,
        "StaticRoutesOnly": bool(options.get("StaticRoutesOnly")),
        "LocalIpv4NetworkCidr": options.get("LocalIpv4NetworkCidr", "0.0.0.0/0"),
        "RemoteIpv4NetworkCidr": options.get("RemoteIpv4NetworkCidr", "0.0.0.0/0"),
        "OutsideIpAddressType": options.get("OutsideIpAddressType", "PublicIpv4"),
        "TunnelInsideIpVersion": options.get("TunnelInsideIpVersion", "ipv4"),
    }
    made.tunnels = [
        _new_tunnel(2 * number + index, given[index] if index < len(given) else {}) for index in (0, 1)
    ]
    made.static_routes = []
    return {"VpnConnection": _connection(call, made)}


def _check_tunnel(call: Call, options: Params) -> None:
    _check_logs(call, (options.get("LogOptions") or {}).get("CloudWatchLogOptions") or {})
    for name, valid in _VALID.items():
        value = options.get(name)
        values = [one["Value"] for one in value] if isinstance(value, list) else [value] * (value is not None)
        for one in values:
            if one not in valid:
                raise AwsError("InvalidParameterValue", f"Invalid value {one!r} for {name}.")


def _check_logs(call: Call, options: Params) -> None:
    """Reject logs without a log group, or to one that does not exist."""
    from moto.logs.models import logs_backends

    known = {each.arn for each in logs_backends[call.account][call.region].groups.values()}
    for kind in ("", "Bgp"):
        if options.get(f"{kind}LogEnabled") and options.get(f"{kind}LogGroupArn") not in known:
            message = f"Invalid log group ARN: {options.get(f'{kind}LogGroupArn')}"
            raise AwsError("InvalidParameterValue", message)


def _new_tunnel(number: int, given: Params) -> Params:
    """Return a tunnel's options, with an address of documentation (RFC 5737) outside, and a /30 inside."""
    inside = 4 * (number % 64)
    alphabet = string.ascii_letters + string.digits + "._"
    return {
        "OutsideIpAddress": f"198.51.100.{number % 254 + 1}",
        "TunnelInsideCidr": f"169.254.{10 + number // 64}.{inside}/30",
        "PreSharedKey": "k" + "".join(secrets.choice(alphabet) for _ in range(31)),
        **{_SHOWN.get(key, key): value for key, value in given.items()},
    }


@operation("ec2", "DescribeVpnConnections")
def describe_vpn_connections(call: Call) -> Params:
    """The connections; deleted ones are shown for a while."""
    ids = call.params.get("VpnConnectionIds") or []
    every = ec2.ec2_backend(call).vpn_connections
    check_known(ids, every, "InvalidVpnConnectionID.NotFound", "vpnConnection")
    shown = [_connection(call, one) for one in every.values() if not ids or one.id in ids]
    filters = call.params.get("Filters") or []
    return {
        "VpnConnections": [
            item
            for item in shown
            if ec2.matches(call, item["VpnConnectionId"], item, filters, _CONNECTION_FILTERS)
        ]
    }


@operation("ec2", "DeleteVpnConnection")
def delete_vpn_connection(call: Call) -> Passthrough:
    """Delete the connection with its tags."""
    answer = call.original()
    ec2.forget_tags(call, call.params["VpnConnectionId"])
    return answer


@operation("ec2", "ModifyVpnConnection")
def modify_vpn_connection(call: Call) -> Params:
    """Use another gateway on one of the sides."""
    backend, wanted = ec2.ec2_backend(call), call.params
    connection = _live(call)
    if wanted.get("CustomerGatewayId"):
        connection.customer_gateway_id = backend.get_customer_gateway(wanted["CustomerGatewayId"]).id
    if wanted.get("VpnGatewayId"):
        connection.vpn_gateway_id = backend.get_vpn_gateway(wanted["VpnGatewayId"]).id
    return {"VpnConnection": _connection(call, connection)}


@operation("ec2", "ModifyVpnTunnelOptions")
def modify_vpn_tunnel_options(call: Call) -> Params:
    """Change the options of one tunnel, by its outside address."""
    connection, address = _live(call), call.params["VpnTunnelOutsideIpAddress"]
    options = call.params["TunnelOptions"]
    _check_tunnel(call, options)
    for tunnel in connection.tunnels:
        if tunnel["OutsideIpAddress"] == address:
            tunnel |= {_SHOWN.get(key, key): value for key, value in options.items()}
            return {"VpnConnection": _connection(call, connection)}
    raise AwsError("InvalidParameterValue", f"{connection.id} has no tunnel {address}")


@operation("ec2", "CreateVpnConnectionRoute")
def create_vpn_connection_route(call: Call) -> Params:
    """Add a static route to a connection without BGP."""
    connection, block = _live(call), call.params["DestinationCidrBlock"]
    if not connection.options["StaticRoutesOnly"]:
        raise AwsError("InvalidParameterValue", f"{connection.id} has dynamic routing: no static routes")
    if block not in connection.static_routes:
        connection.static_routes.append(block)
    return {}


@operation("ec2", "DeleteVpnConnectionRoute")
def delete_vpn_connection_route(call: Call) -> Params:
    """Remove a static route."""
    connection, block = _live(call), call.params["DestinationCidrBlock"]
    if block not in connection.static_routes:
        raise AwsError("InvalidRoute.NotFound", f"{connection.id} has no route to {block}")
    connection.static_routes.remove(block)
    return {}


def _live(call: Call) -> Any:
    wanted = call.params["VpnConnectionId"]
    for one in live_connections(ec2.ec2_backend(call)):
        if one.id == wanted:
            return one
    raise AwsError("InvalidVpnConnectionID.NotFound", f"The vpnConnection ID '{wanted}' does not exist")


def check_known(ids: list[str], every: Any, code: str, what: str) -> None:
    """Raise the error `code` for an id that is not among `every`."""
    for one in ids:
        if one not in every:
            raise AwsError(code, f"The {what} ID '{one}' does not exist")


def live_connections(backend: Any) -> list[Any]:
    """Return the connections that are not deleted."""
    return [one for one in backend.vpn_connections.values() if one.state != "deleted"]


def _connection(call: Call, one: Any) -> Params:
    live = one.state != "deleted"
    shown: Params = {
        "VpnConnectionId": one.id,
        "State": one.state,
        "Type": one.type,
        "Category": "VPN",
        "CustomerGatewayId": one.customer_gateway_id,
        "VpnGatewayId": one.vpn_gateway_id,
        "GatewayAssociationState": "associated" if one.vpn_gateway_id else "not-associated",
        "Options": {**one.options, "TunnelOptions": one.tunnels},
        "Routes": [{"DestinationCidrBlock": block, "State": "available"} for block in one.static_routes],
        "Tags": ec2.tag_list(call, one.id),
        "VgwTelemetry": [
            {
                "OutsideIpAddress": tunnel["OutsideIpAddress"],
                "Status": "DOWN",
                "StatusMessage": "",
                "AcceptedRouteCount": len(one.static_routes),
                "LastStatusChange": dt.datetime(2026, 1, 1),
            }
            for tunnel in one.tunnels
        ],
    }
    if one.transit_gateway_id:
        shown["TransitGatewayId"] = one.transit_gateway_id
    if live:
        shown["CustomerGatewayConfiguration"] = _configuration(call, one)
    return shown


def _configuration(call: Call, one: Any) -> str:
    """Return the XML for the router: addresses, BGP numbers and keys of both tunnels."""
    backend = ec2.ec2_backend(call)
    router = backend.customer_gateways[one.customer_gateway_id]
    gateway = backend.vpn_gateways.get(one.vpn_gateway_id)
    root = ElementTree.Element("vpn_connection", id=one.id)
    _add(root, "customer_gateway_id", one.customer_gateway_id)
    _add(root, "vpn_gateway_id", one.vpn_gateway_id or "")
    _add(root, "vpn_connection_type", one.type)
    for tunnel in one.tunnels:
        first, *_ = tunnel["TunnelInsideCidr"].rpartition("/")
        stem, _, last = first.rpartition(".")
        part = ElementTree.SubElement(root, "ipsec_tunnel")
        sides = (
            ("customer_gateway", router.ip_address, f"{stem}.{int(last) + 2}", router.bgp_asn),
            (
                "vpn_gateway",
                tunnel["OutsideIpAddress"],
                f"{stem}.{int(last) + 1}",
                getattr(gateway, "amazon_side_asn", AMAZON_ASN),
            ),
        )
        for side, outside, inside, asn in sides:
            here = ElementTree.SubElement(part, side)
            _add(ElementTree.SubElement(here, "tunnel_outside_address"), "ip_address", outside)
            _add(ElementTree.SubElement(here, "tunnel_inside_address"), "ip_address", inside)
            if not one.options["StaticRoutesOnly"]:
                bgp = ElementTree.SubElement(here, "bgp")
                _add(bgp, "asn", str(asn))
                _add(bgp, "hold_time", "30")
        _add(ElementTree.SubElement(part, "ike"), "pre_shared_key", tunnel["PreSharedKey"])
    return ElementTree.tostring(root, encoding="unicode")


def _add(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = text
