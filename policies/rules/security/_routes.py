"""Subnets whose route table leads to an internet gateway, and what launches nodes into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gpufleet.policies.rules.security._flags import expanded
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource, holds_unknown, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BATCH,
    FLEET,
    INSTANCE,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    SPOT_FLEET,
    SPOT_INSTANCE_REQUEST,
    SUBNET,
    VPC,
)

GATEWAY = "aws:ec2/internetGateway:InternetGateway"
TABLE = "aws:ec2/routeTable:RouteTable"
DEFAULT_TABLE = "aws:ec2/defaultRouteTable:DefaultRouteTable"
ROUTE = "aws:ec2/route:Route"
ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
MAIN = "aws:ec2/mainRouteTableAssociation:MainRouteTableAssociation"
TABLES = (TABLE, DEFAULT_TABLE)

_OVERRIDES = "launchTemplateConfigs[].overrides[].subnetId"

PLACES: Mapping[str, tuple[str, ...]] = {
    NODE_GROUP: ("subnetIds",),
    AUTO_SCALING_GROUP: ("vpcZoneIdentifiers",),
    LAUNCH_TEMPLATE: ("networkInterfaces[].subnetId",),
    INSTANCE: ("subnetId",),
    SPOT_INSTANCE_REQUEST: ("subnetId",),
    FLEET: (_OVERRIDES,),
    SPOT_FLEET: ("launchSpecifications[].subnetId", _OVERRIDES),
    BATCH: ("computeResources.subnets",),
    "aws:ec2/networkInterface:NetworkInterface": ("subnetId",),
    "aws:eks/fargateProfile:FargateProfile": ("subnetIds",),
    "aws:emr/cluster:Cluster": ("ec2Attributes.subnetId", "ec2Attributes.subnetIds"),
}
"""Types that launch nodes, or are an interface of one -> where they list subnets."""

TYPES = (*PLACES, ROUTE, *TABLES, ASSOCIATION, MAIN)


class PublicPlace(Struct, frozen=True):
    """A launcher's property that has a subnet with a route to an internet gateway; `route` has that route."""

    launcher: Resource
    prop: str
    route: Resource


def public_places(stack: Stack) -> Iterator[PublicPlace]:
    """Yield each launcher with a subnet that has such a route, once."""
    public = _Routes(stack).subnets()
    for launcher in map(declared, stack.of_type(*PLACES)):
        for path in places_of(launcher):
            named = _targets(stack, launcher, path, (SUBNET,))
            found = next((public[each] for each in named if each in public), None)
            if found is not None:
                yield PublicPlace(launcher, path, found)
                break


def places_of(launcher: Resource) -> Iterator[str]:
    """Yield the paths at which a launcher, or a template, lists subnets."""
    for place in PLACES.get(launcher.type, ()):
        yield from expanded(launcher, place)


class _Routes:
    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.tables: dict[str, Resource] = {}
        for route in map(declared, stack.of_type(ROUTE)):
            if self._leads_out(route, "gatewayId"):
                for table in _targets(stack, route, "routeTableId", (*TABLES, VPC)):
                    self.tables.setdefault(table, route)
        for owner in map(declared, stack.of_type(*TABLES)):
            if any(self._leads_out(owner, f"{path}.gatewayId") for path, _ in owner.items("routes")):
                self.tables.setdefault(owner.urn, owner)

    def subnets(self) -> dict[str, Resource]:
        """Return subnet (URN, or id outside the stack) -> the resource with the route."""
        found: dict[str, Resource] = {}
        placed: set[str] = set()
        for each in map(declared, self.stack.of_type(ASSOCIATION)):
            subnets = _targets(self.stack, each, "subnetId", (SUBNET,))
            placed.update(subnets)
            for table in _targets(self.stack, each, "routeTableId", TABLES):
                if table in self.tables:
                    found.update(dict.fromkeys(subnets, self.tables[table]))
        main = self._main()
        for subnet in self.stack.of_type(SUBNET):
            for vpc in _targets(self.stack, subnet, "vpcId", (VPC,)):
                if vpc in main and subnet.urn not in placed:
                    found[subnet.urn] = main[vpc]
        return found

    def _main(self) -> dict[str, Resource]:
        """Return VPC -> the route of its main table, which subnets without a table of their own have."""
        found = dict(self.tables)  # of a VPC: a route in its main table
        for each in self.stack.of_type(DEFAULT_TABLE):
            if each.urn in self.tables:
                vpcs = _targets(self.stack, each, "defaultRouteTableId", (VPC,))
                found.update(dict.fromkeys(vpcs, self.tables[each.urn]))
        for each in self.stack.of_type(MAIN):
            tables = _targets(self.stack, each, "routeTableId", TABLES)
            route = next((self.tables[table] for table in tables if table in self.tables), None)
            if route is not None:
                found.update(dict.fromkeys(_targets(self.stack, each, "vpcId", (VPC,)), route))
        return found

    def _leads_out(self, resource: Resource, path: str) -> bool:
        value = resource.get(path)
        if resource.get(path.replace("gatewayId", "carrierGatewayId")) is not None:
            return True
        if isinstance(value, str):
            ids = {each.get("id") for each in self.stack.of_type(GATEWAY)}
            return value.strip().startswith("igw-") or value in ids
        top = path.partition("[")[0].partition(".")[0]
        return is_unknown(value) and bool(self.stack.references(resource, top, types=(GATEWAY,)))


def _targets(stack: Stack, resource: Resource, path: str, types: Sequence[str]) -> list[str]:
    """Return the URNs that a property refers to, and the ids of what is outside the stack."""
    found: list[str] = []
    values = [value for _, value in resource.items(path)]
    by_id = {each.get("id"): each.urn for each in stack.of_type(*types)}
    for value in values:
        if isinstance(value, str):
            found.append(by_id.get(value, value))
    if holds_unknown(values):
        top = path.partition("[")[0].partition(".")[0]
        found += [each.urn for each in stack.references(resource, top, types=types)]
    return found
