"""Route tables, routes and the association of tables with subnets."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import Aws, Handler, only
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.ec2 import find, remove, retag, tag_spec
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle
from gpufleet.lab.aws.provider.wire import Props

_TARGETS = {
    "carrierGatewayId": "CarrierGatewayId",
    "coreNetworkArn": "CoreNetworkArn",
    "egressOnlyGatewayId": "EgressOnlyInternetGatewayId",
    "gatewayId": "GatewayId",
    "localGatewayId": "LocalGatewayId",
    "natGatewayId": "NatGatewayId",
    "networkInterfaceId": "NetworkInterfaceId",
    "odbNetworkArn": "OdbNetworkArn",
    "transitGatewayId": "TransitGatewayId",
    "vpcEndpointId": "VpcEndpointId",
    "vpcPeeringConnectionId": "VpcPeeringConnectionId",
}
_ROUTE_DESTINATIONS = {
    "destinationCidrBlock": "DestinationCidrBlock",
    "destinationIpv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
}
_INLINE_DESTINATIONS = {
    "cidrBlock": "DestinationCidrBlock",
    "ipv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
}


def _translated(values: Mapping[str, Any], table: Mapping[str, str]) -> Props:
    return {member: values[key] for key, member in table.items() if values.get(key)}


def _named(route: Mapping[str, Any], table: Mapping[str, str]) -> Props:
    return {key: route[member] for key, member in table.items() if route.get(member)}


def _is_ours(route: Mapping[str, Any]) -> bool:
    """Return whether a user created the route: not local, propagated or of a gateway endpoint."""
    gateway = str(route.get("GatewayId", ""))
    return (
        gateway != "local"
        and route.get("Origin", "CreateRoute") == "CreateRoute"
        and not (gateway.startswith("vpce-") and route.get("DestinationPrefixListId"))
    )


def _find_table(aws: Aws, rid: str) -> Props | None:
    return find(aws.client("ec2").describe_route_tables, "RouteTables", RouteTableIds=[rid])


class RouteTable(Handler):
    """aws.ec2.RouteTable, with its routes inline or as separate resources."""

    pulumi_type = "aws:ec2/routeTable:RouteTable"
    force_new = frozenset({"vpcId"})
    computed = frozenset({"routes", "propagatingVgws"})
    sets = frozenset({"routes"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the table and its inline routes."""
        ec2 = aws.client("ec2")
        made = ec2.create_route_table(VpcId=inputs["vpcId"], **tag_spec("route-table", inputs))
        rid = str(made["RouteTable"]["RouteTableId"])
        with keep_on_failure(rid):
            for route in inputs.get("routes") or ():
                self._add(ec2, rid, route)
            for gateway in inputs.get("propagatingVgws") or ():
                ec2.enable_vgw_route_propagation(RouteTableId=rid, GatewayId=gateway)
        return rid

    @staticmethod
    def _add(ec2: Any, rid: str, route: Props) -> None:
        ec2.create_route(
            RouteTableId=rid, **_translated(route, _INLINE_DESTINATIONS), **_translated(route, _TARGETS)
        )

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the table and the routes that users created."""
        found = _find_table(aws, rid)
        if found is None:
            return None
        routes = [
            _named(route, _INLINE_DESTINATIONS) | _named(route, _TARGETS)
            for route in found.get("Routes") or ()
            if _is_ours(route)
        ]
        return {
            "vpcId": found["VpcId"],
            "ownerId": found.get("OwnerId"),
            "arn": aws.arn("ec2", f"route-table/{rid}"),
            "propagatingVgws": [item["GatewayId"] for item in found.get("PropagatingVgws") or ()],
            "routes": routes,
            "tags": {tag["Key"]: tag["Value"] for tag in found.get("Tags") or ()},
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change inline routes and tags in place."""
        ec2 = aws.client("ec2")
        if "routes" in changed and "routes" in new:
            before = {
                str(_translated(route, _INLINE_DESTINATIONS)): route for route in old.get("routes") or ()
            }
            after = {str(_translated(route, _INLINE_DESTINATIONS)): route for route in new["routes"]}
            for key in sorted(before.keys() - after.keys()):
                ec2.delete_route(RouteTableId=rid, **_translated(before[key], _INLINE_DESTINATIONS))
            for key in sorted(after):
                if key not in before:
                    self._add(ec2, rid, after[key])
                elif _translated(before[key], _TARGETS) != _translated(after[key], _TARGETS):
                    ec2.replace_route(
                        RouteTableId=rid,
                        **_translated(after[key], _INLINE_DESTINATIONS),
                        **_translated(after[key], _TARGETS),
                    )
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Disassociate every subnet, then delete the table."""
        ec2 = aws.client("ec2")
        for association in (_find_table(aws, rid) or {}).get("Associations") or ():
            if not association.get("Main"):
                ec2.disassociate_route_table(AssociationId=association["RouteTableAssociationId"])
        remove(lambda: ec2.delete_route_table(RouteTableId=rid), lambda: _find_table(aws, rid), rid)


class Route(Handler):
    """aws.ec2.Route: one route of a table."""

    pulumi_type = "aws:ec2/route:Route"
    force_new = frozenset({"routeTableId", *_ROUTE_DESTINATIONS})
    computed = frozenset({"networkInterfaceId"})
    delete_before_replace = True

    def check(self, inputs: Props) -> list[Problem]:
        """Check that there is one destination and one target."""
        found = []
        if len([key for key in _ROUTE_DESTINATIONS if inputs.get(key)]) != 1:
            known = ", ".join(_ROUTE_DESTINATIONS)
            found.append(
                Problem("destinationCidrBlock", f"a route has exactly one destination: set one of {known}")
            )
        if len([key for key in _TARGETS if inputs.get(key)]) != 1:
            found.append(
                Problem("gatewayId", f"a route has exactly one target: set one of {', '.join(_TARGETS)}")
            )
        return found

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the route; the table or gateway may be seconds old."""
        destination = _translated(inputs, _ROUTE_DESTINATIONS)
        parameters = {"RouteTableId": inputs["routeTableId"], **destination, **_translated(inputs, _TARGETS)}
        settle(
            lambda: aws.client("ec2").create_route(**parameters), codes=r"Invalid.*\.NotFound", timeout_s=5.0
        )
        # The real provider's id: a CRC of the destination.
        return f"r-{inputs['routeTableId']}{zlib.crc32(next(iter(destination.values())).encode())}"

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the route of the table with this destination."""
        table = _find_table(aws, str(state.get("routeTableId", "")))
        wanted = _translated(state, _ROUTE_DESTINATIONS)
        for route in (table or {}).get("Routes") or ():
            if wanted and all(route.get(member) == value for member, value in wanted.items()):
                out: Props = dict.fromkeys(_TARGETS) | _named(route, _ROUTE_DESTINATIONS)
                return (
                    out
                    | _named(route, _TARGETS)
                    | {
                        "routeTableId": state["routeTableId"],
                        "instanceId": route.get("InstanceId", ""),
                        "instanceOwnerId": route.get("InstanceOwnerId", ""),
                        "origin": route.get("Origin", "CreateRoute"),
                        "state": route.get("State", "active"),
                    }
                )
        return None

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change the target."""
        aws.client("ec2").replace_route(
            RouteTableId=new["routeTableId"],
            **_translated(new, _ROUTE_DESTINATIONS),
            **_translated(new, _TARGETS),
        )

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the route by its destination."""
        aws.client("ec2").delete_route(
            RouteTableId=state["routeTableId"], **_translated(state, _ROUTE_DESTINATIONS)
        )


class RouteTableAssociation(Handler):
    """aws.ec2.RouteTableAssociation: a table with a subnet or a gateway."""

    pulumi_type = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    force_new = frozenset({"subnetId", "gatewayId"})
    # A subnet can have only one association.
    delete_before_replace = True

    def check(self, inputs: Props) -> list[Problem]:
        """Check that a subnet or a gateway is set, not both."""
        if bool(inputs.get("subnetId")) == bool(inputs.get("gatewayId")):
            return [Problem("subnetId", "set one of subnetId and gatewayId")]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Associate the table."""
        made = aws.send("ec2", "AssociateRouteTable", only(inputs, "routeTableId", "subnetId", "gatewayId"))
        return str(made["AssociationId"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the association, in whichever table it is now."""
        ids = Names(rename={"id": "RouteTableAssociationId"})
        by_id = {"Name": "association.route-table-association-id", "Values": [rid]}
        table = find(aws.client("ec2").describe_route_tables, "RouteTables", Filters=[by_id])
        for association in (table or {}).get("Associations") or ():
            if association.get("RouteTableAssociationId") == rid:
                return self.decode(association, ids)
        return None

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Never called: AWS gives a moved association another id."""
        super().update(aws, rid, old, new, changed)

    def replaces(self, old: Props, new: Props, changed: frozenset[str]) -> frozenset[str]:
        """Replace for another table: it changes the association's id."""
        return frozenset({"routeTableId"}) & changed

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Disassociate the table."""
        aws.client("ec2").disassociate_route_table(AssociationId=rid)


HANDLERS = (RouteTable(), Route(), RouteTableAssociation())
