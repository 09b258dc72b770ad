"""Connections of site-to-site VPNs, with the options of two tunnels, and their static routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import Aws, Handler, only
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.ec2 import await_state, find, remove, retag, tag_spec
from gpufleet.lab.aws.provider.resources.vpn_gateways import ENDED, TIMEOUT_S, live
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props

_LISTS = {
    "IkeVersions": "IKEVersions",
    "Phase1DhGroupNumbers": "Phase1DHGroupNumbers",
    "Phase1EncryptionAlgorithms": "Phase1EncryptionAlgorithms",
    "Phase1IntegrityAlgorithms": "Phase1IntegrityAlgorithms",
    "Phase2DhGroupNumbers": "Phase2DHGroupNumbers",
    "Phase2EncryptionAlgorithms": "Phase2EncryptionAlgorithms",
    "Phase2IntegrityAlgorithms": "Phase2IntegrityAlgorithms",
}
"""Tunnel options that are lists in pulumi_aws, and lists of `Value` in EC2: property suffix to parameter."""

_SCALARS = {
    "DpdTimeoutAction": "DPDTimeoutAction",
    "DpdTimeoutSeconds": "DPDTimeoutSeconds",
    "EnableTunnelLifecycleControl": "EnableTunnelLifecycleControl",
    "InsideCidr": "TunnelInsideCidr",
    "Phase1LifetimeSeconds": "Phase1LifetimeSeconds",
    "Phase2LifetimeSeconds": "Phase2LifetimeSeconds",
    "PresharedKey": "PreSharedKey",
    "RekeyFuzzPercentage": "RekeyFuzzPercentage",
    "RekeyMarginTimeSeconds": "RekeyMarginTimeSeconds",
    "ReplayWindowSize": "ReplayWindowSize",
    "StartupAction": "StartupAction",
}
_CONNECTION = (
    "localIpv4NetworkCidr",
    "outsideIpAddressType",
    "remoteIpv4NetworkCidr",
    "staticRoutesOnly",
    "tunnelInsideIpVersion",
)
_TUNNELS = (1, 2)


def _tunnel_options(inputs: Mapping[str, Any], number: int, names: frozenset[str] | None = None) -> Props:
    """Return the parameters of a tunnel; with `names`, only those of these properties."""
    options: Props = {}
    for table in (_SCALARS, _LISTS):
        for suffix, member in table.items():
            key = f"tunnel{number}{suffix}"
            value = inputs.get(key)
            if value is None or (names is not None and key not in names):
                continue
            options[member] = [{"Value": each} for each in value] if table is _LISTS else value
    key = f"tunnel{number}LogOptions"
    if inputs.get(key) is not None and (names is None or key in names):
        logs = inputs[key].get("cloudwatchLogOptions") or {}
        wanted = {f"{name[0].upper()}{name[1:]}": value for name, value in logs.items() if value is not None}
        options["LogOptions"] = {"CloudWatchLogOptions": wanted}
    return options


def _canonical(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key.lower(): value for key, value in data.items()}


def _shown_options(options: Mapping[str, Any], number: int) -> Props:
    """Return the properties of a tunnel from its description."""
    given, out = _canonical(options), {}
    for suffix, member in _SCALARS.items():
        out[f"tunnel{number}{suffix}"] = given.get(member.lower())
    for suffix, member in _LISTS.items():
        values = given.get(member.lower())
        out[f"tunnel{number}{suffix}"] = [each["Value"] for each in values] if values else None
    logs = (options.get("LogOptions") or {}).get("CloudWatchLogOptions")
    if logs:
        shown = {f"{name[0].lower()}{name[1:]}": value for name, value in logs.items()}
        out[f"tunnel{number}LogOptions"] = {"cloudwatchLogOptions": shown}
    return {key: value for key, value in out.items() if value is not None}


class VpnConnection(Handler):
    """aws.ec2.VpnConnection between a customer gateway and a virtual private gateway."""

    pulumi_type = "aws:ec2/vpnConnection:VpnConnection"
    force_new = frozenset({
        "enableAcceleration", "outsideIpAddressType", "staticRoutesOnly", "tunnelInsideIpVersion",
        "transportTransitGatewayAttachmentId", "type",
    })  # fmt: skip
    computed = frozenset({
        "enableAcceleration", "localIpv4NetworkCidr", "localIpv6NetworkCidr", "outsideIpAddressType",
        "presharedKeyStorage", "remoteIpv4NetworkCidr", "remoteIpv6NetworkCidr", "staticRoutesOnly",
        "tunnelBandwidth", "tunnelInsideIpVersion",
        *(f"tunnel{number}{name}" for number in _TUNNELS
          for name in ("InsideCidr", "InsideIpv6Cidr", "LogOptions", "PresharedKey")),
    })  # fmt: skip
    sets = frozenset({"routes", "vgwTelemetries"})
    secrets = frozenset({"customerGatewayConfiguration", "tunnel1PresharedKey", "tunnel2PresharedKey"})

    def check(self, inputs: Props) -> list[Problem]:
        """Reject what the emulated AWS lacks: other ends than a virtual private gateway."""
        if inputs.get("transitGatewayId") or not inputs.get("vpnGatewayId"):
            return [
                Problem("vpnGatewayId", "the sandbox has connections to virtual private gateways: set it")
            ]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the connection and wait until it is available."""
        options = {
            **{f"{key[0].upper()}{key[1:]}": value for key, value in only(inputs, *_CONNECTION).items()},
            "TunnelOptions": [_tunnel_options(inputs, number) for number in _TUNNELS],
        }
        made = aws.client("ec2").create_vpn_connection(
            Type=inputs["type"],
            CustomerGatewayId=inputs["customerGatewayId"],
            VpnGatewayId=inputs["vpnGatewayId"],
            Options=options,
            **tag_spec("vpn-connection", inputs),
        )
        rid = str(made["VpnConnection"]["VpnConnectionId"])
        with keep_on_failure(rid):
            self._await(aws, rid)
        return rid

    def _await(self, aws: Aws, rid: str) -> None:
        await_state(lambda: self._find(aws, rid), "State", {"available"}, timeout_s=TIMEOUT_S, what=rid)

    @staticmethod
    def _find(aws: Aws, rid: str) -> Props | None:
        return live(
            find(aws.client("ec2").describe_vpn_connections, "VpnConnections", VpnConnectionIds=[rid])
        )

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The connection, and its tunnels in the order of their outside addresses, as the real provider."""
        found = self._find(aws, rid)
        if found is None:
            return None
        options = found.get("Options") or {}
        tunnels = sorted(options.get("TunnelOptions") or (), key=lambda one: str(one["OutsideIpAddress"]))
        out = self.decode(found, Names(rename={"vgwTelemetries": "VgwTelemetry"}))
        for key in _CONNECTION:
            out[key] = options.get(f"{key[0].upper()}{key[1:]}")
        out["enableAcceleration"] = bool(options.get("EnableAcceleration"))
        sides = _sides(str(found.get("CustomerGatewayConfiguration", "")))
        for number, tunnel in zip(_TUNNELS, tunnels, strict=False):
            address = str(tunnel["OutsideIpAddress"])
            out |= _shown_options(tunnel, number)
            out |= {f"tunnel{number}{key}": value for key, value in sides.get(address, {}).items()}
            out[f"tunnel{number}Address"] = address
        return {**out, "tags": out.get("tags", {}), "arn": aws.arn("ec2", f"vpn-connection/{rid}")}

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change gateways, the options of each tunnel, and tags."""
        ec2 = aws.client("ec2")
        ends = changed & {"customerGatewayId", "vpnGatewayId"}
        if ends:
            ec2.modify_vpn_connection(
                VpnConnectionId=rid, **{f"{key[0].upper()}{key[1:]}": new[key] for key in sorted(ends)}
            )
            self._await(aws, rid)
        for number in _TUNNELS:
            options = _tunnel_options(new, number, changed)
            if options:
                ec2.modify_vpn_tunnel_options(
                    VpnConnectionId=rid,
                    VpnTunnelOutsideIpAddress=old[f"tunnel{number}Address"],
                    TunnelOptions=options,
                )
                self._await(aws, rid)
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the connection and wait until it is gone."""
        ec2 = aws.client("ec2")
        remove(
            lambda: ec2.delete_vpn_connection(VpnConnectionId=rid),
            lambda: self._find(aws, rid),
            rid,
        )


def _sides(configuration: str) -> dict[str, Props]:
    """Return what the router's configuration says of each tunnel, by outside address of AWS's side."""
    found: dict[str, Props] = {}
    if not configuration:
        return found
    for tunnel in ElementTree.fromstring(configuration).iter("ipsec_tunnel"):  # noqa: S314 - the sandbox's own
        facts = {
            "CgwInsideAddress": tunnel.findtext("customer_gateway/tunnel_inside_address/ip_address"),
            "VgwInsideAddress": tunnel.findtext("vpn_gateway/tunnel_inside_address/ip_address"),
            "BgpAsn": tunnel.findtext("vpn_gateway/bgp/asn"),
            "BgpHoldtime": tunnel.findtext("vpn_gateway/bgp/hold_time"),
        }
        address = tunnel.findtext("vpn_gateway/tunnel_outside_address/ip_address") or ""
        found[address] = {key: value for key, value in facts.items() if value is not None}
        if "BgpHoldtime" in found[address]:
            found[address]["BgpHoldtime"] = int(found[address]["BgpHoldtime"])
    return found


class VpnConnectionRoute(Handler):
    """aws.ec2.VpnConnectionRoute: a static route of a connection without BGP."""

    pulumi_type = "aws:ec2/vpnConnectionRoute:VpnConnectionRoute"
    force_new = frozenset({"destinationCidrBlock", "vpnConnectionId"})
    delete_before_replace = True

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the route."""
        block, connection = inputs["destinationCidrBlock"], inputs["vpnConnectionId"]
        aws.client("ec2").create_vpn_connection_route(DestinationCidrBlock=block, VpnConnectionId=connection)
        # The real provider's id.
        return f"{block}:{connection}"

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The route, if its connection has it."""
        block, _, connection = rid.rpartition(":")
        found = VpnConnection._find(aws, connection)
        for route in (found or {}).get("Routes") or ():
            if route["DestinationCidrBlock"] == block and route["State"] not in ENDED:
                return {"destinationCidrBlock": block, "vpnConnectionId": connection}
        return None

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the route."""
        block, _, connection = rid.rpartition(":")
        aws.client("ec2").delete_vpn_connection_route(DestinationCidrBlock=block, VpnConnectionId=connection)


HANDLERS = (VpnConnection(), VpnConnectionRoute())
