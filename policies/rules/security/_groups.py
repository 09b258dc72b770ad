"""Security groups and all their rules, from the four resource types that can declare them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

from msgspec import Struct

from gpufleet.policies.rules.security._networks import Network, network
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    SECURITY_GROUP,
    SECURITY_GROUP_EGRESS,
    SECURITY_GROUP_INGRESS,
    SECURITY_GROUP_RULE,
    VPC,
)

DEFAULT_GROUP = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
PREFIX_LIST = "aws:ec2/managedPrefixList:ManagedPrefixList"
PREFIX_LIST_ENTRY = "aws:ec2/managedPrefixListEntry:ManagedPrefixListEntry"
GROUPS = (SECURITY_GROUP, DEFAULT_GROUP)
SEPARATE_RULES = (SECURITY_GROUP_RULE, SECURITY_GROUP_INGRESS, SECURITY_GROUP_EGRESS)
TYPES = (*GROUPS, *SEPARATE_RULES, PREFIX_LIST, PREFIX_LIST_ENTRY)

Direction = Literal["ingress", "egress"]
_DIRECTIONS: tuple[Direction, ...] = ("ingress", "egress")
_ALL = ("-1", "all", "-1.0")
_WITH_PORTS = ("tcp", "udp", "6", "17", "sctp", "132")


class TrafficRule(Struct, frozen=True):
    """One rule of a group. `path` is the rule's place in its resource, `group` the URN of its group ("" if
    outside the stack), `unclear` the properties whose networks are not known.
    """

    resource: Resource
    path: str
    direction: Direction
    group: str
    protocol: Any
    first: Any
    last: Any
    networks: tuple[tuple[str, Network], ...]
    unclear: tuple[str, ...]
    itself: bool
    others: bool

    @property
    def all_traffic(self) -> bool:
        """Return whether it is or may be for every protocol."""
        return is_unknown(self.protocol) or str(self.protocol).strip().lower() in _ALL

    @property
    def ports(self) -> str:
        """Return protocol and ports for a message."""
        if self.all_traffic:
            return "all traffic"
        return (
            f"{self.protocol} {self.first}-{self.last}"
            if self.first != self.last
            else (f"{self.protocol} {self.first}")
        )

    def covers(self, port: int) -> bool:
        """Return whether it is or may be for the port."""
        if self.all_traffic:
            return True
        if str(self.protocol).strip().lower() not in _WITH_PORTS:
            return False
        return self.includes(port)

    @property
    def start(self) -> int:
        """Return its first port; 0 if it is for all or not known."""
        return max(_port(self.first) or 0, 0)

    def includes(self, port: int) -> bool:
        """Return whether its range has or may have the port, for any protocol."""
        low, high = _port(self.first), _port(self.last)
        return low is None or high is None or low < 0 or low <= port <= high

    def within(self, ports: Sequence[int]) -> bool:
        """Return whether it is for these single ports only."""
        low = _port(self.first)
        return not self.all_traffic and low == _port(self.last) and low in ports


def _port(value: Any) -> int | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value)
    return int(value) if isinstance(value, str) and value.strip().lstrip("-").isdigit() else None


_known: WeakKeyDictionary[Stack, tuple[TrafficRule, ...]] = WeakKeyDictionary()


def rules(stack: Stack) -> tuple[TrafficRule, ...]:
    """Return all rules of a stack, read once per stack."""
    found = _known.get(stack)
    if found is None:
        found = _known[stack] = tuple(_Reader(stack).all())
    return found


class _Reader:
    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.ids = {each.get("id"): each.urn for each in stack.of_type(*GROUPS, PREFIX_LIST)}
        self.entries: dict[str, list[Any]] = {}
        for each in map(declared, stack.of_type(PREFIX_LIST)):
            cidrs = [each.get(f"{path}.cidr") for path, _ in each.items("entries")]
            self.entries[each.urn] = cidrs
        for each in map(declared, stack.of_type(PREFIX_LIST_ENTRY)):
            for urn in self._referred(each, "prefixListId", (PREFIX_LIST,)):
                self.entries[urn].append(each.get("cidr"))

    def all(self) -> Iterator[TrafficRule]:
        for group in map(declared, self.stack.of_type(*GROUPS)):
            for direction in _DIRECTIONS:
                for path, value in group.items(direction):
                    yield self._inline(group, direction, path, value)
        for rule in map(declared, self.stack.of_type(SECURITY_GROUP_RULE)):
            yield from self._older(rule)
        for rule in map(declared, self.stack.of_type(SECURITY_GROUP_INGRESS)):
            yield from self._newer(rule, "ingress")
        for rule in map(declared, self.stack.of_type(SECURITY_GROUP_EGRESS)):
            yield from self._newer(rule, "egress")

    def _inline(self, group: Resource, direction: Direction, path: str, value: Any) -> TrafficRule:
        peers = group.get(f"{path}.securityGroups")
        own = group.get(f"{path}.self")
        props = tuple(f"{path}.{each}" for each in ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds"))
        return self._rule(
            group,
            path,
            direction,
            group.urn,
            f"{path}.protocol",
            props,
            itself=own is True,
            others=bool(peers) if not is_unknown(peers) else True,
        )

    def _older(self, rule: Resource) -> Iterator[TrafficRule]:
        kind = rule.get("type")
        props = ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds")
        # An unknown direction may be either.
        directions = [each for each in _DIRECTIONS if kind == each] or _DIRECTIONS
        for group in self._groups_of(rule):
            itself = rule.get("self") is True or self._is(rule, "sourceSecurityGroupId", group)
            for direction in directions:
                yield self._rule(
                    rule,
                    "",
                    direction,
                    group,
                    "protocol",
                    props,
                    itself=itself,
                    others=not itself,
                )

    def _newer(self, rule: Resource, direction: Direction) -> Iterator[TrafficRule]:
        for group in self._groups_of(rule):
            itself = self._is(rule, "referencedSecurityGroupId", group)
            yield self._rule(
                rule,
                "",
                direction,
                group,
                "ipProtocol",
                ("cidrIpv4", "cidrIpv6", "prefixListId"),
                itself=itself,
                others=not itself,
            )

    def _rule(
        self,
        resource: Resource,
        path: str,
        direction: Direction,
        group: str,
        protocol: str,
        props: tuple[str, ...],
        *,
        itself: bool,
        others: bool,
    ) -> TrafficRule:
        networks: list[tuple[str, Network]] = []
        unclear: list[str] = []
        for prop in props:
            for where, value in resource.items(prop):
                cidrs = self._listed(resource, where, value) if "refixList" in prop else [value]
                for cidr in cidrs:
                    block = network(cidr) if isinstance(cidr, str) else None
                    if block is None:
                        unclear.append(where)
                    else:
                        networks.append((where, block))
        return TrafficRule(
            resource=resource,
            path=path,
            direction=direction,
            group=group,
            protocol=resource.get(protocol),
            first=resource.get(f"{path}.fromPort"),
            last=resource.get(f"{path}.toPort"),
            networks=tuple(networks),
            unclear=tuple(unclear),
            itself=itself,
            others=others,
        )

    def _listed(self, resource: Resource, where: str, value: Any) -> list[Any]:
        """Return the networks of a prefix list; UNKNOWN for a list outside the stack."""
        prop = where.partition(".")[0].partition("[")[0]
        if isinstance(value, str):
            urns = [self.ids[value]] if value in self.ids else []
        else:
            urns = [each.urn for each in self.stack.references(resource, prop, types=(PREFIX_LIST,))]
        return [cidr for urn in urns for cidr in self.entries.get(urn, [])] if urns else [None]

    def _groups_of(self, rule: Resource) -> list[str]:
        return self._referred(rule, "securityGroupId", GROUPS) or [""]

    def _referred(self, resource: Resource, prop: str, types: Sequence[str]) -> list[str]:
        value = resource.get(prop)
        if isinstance(value, str) and value in self.ids:
            return [self.ids[value]]
        return [each.urn for each in self.stack.references(resource, prop, types=types)]

    def _is(self, rule: Resource, prop: str, group: str) -> bool:
        return self._referred(rule, prop, (*GROUPS, VPC)) == [group]
