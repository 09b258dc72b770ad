"""Rules of security groups that open a port together: of one group, or of all groups of one node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from gpufleet.policies.rules.security._flags import expanded
from gpufleet.policies.rules.security._groups import GROUPS, TrafficRule, rules
from gpufleet.policies.rules.security._networks import world
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource, holds_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import CLUSTER, INSTANCE, LAUNCH_TEMPLATE, LUSTRE, SPOT_INSTANCE_REQUEST

INTERFACE = "aws:ec2/networkInterface:NetworkInterface"
_LISTS = {
    LAUNCH_TEMPLATE: ("networkInterfaces[].securityGroups", "vpcSecurityGroupIds"),
    INSTANCE: ("vpcSecurityGroupIds",),
    SPOT_INSTANCE_REQUEST: ("vpcSecurityGroupIds",),
    INTERFACE: ("securityGroups",),
    CLUSTER: ("vpcConfig.securityGroupIds",),
    LUSTRE: ("securityGroupIds",),
}
"""Types that have security groups -> the lists of them."""

USERS = tuple(_LISTS)


class Use(Struct, frozen=True):
    """The security groups of this stack that one resource has, if it has several."""

    resource: Resource
    prop: str
    groups: frozenset[str]

    @property
    def key(self) -> str:
        """Return a name that no group has."""
        return f"{self.resource.urn} groups"


class Opening(Struct, frozen=True):
    """Rules that open a port to the internet together, though none does alone. `urn` and `prop` are the place
    to report.
    """

    rules: tuple[TrafficRule, ...]
    widest: str
    urn: str
    prop: str

    @property
    def names(self) -> str:
        """Return the names of the rules' resources."""
        return ", ".join(sorted({rule.resource.name for rule in self.rules}))

    @property
    def ports(self) -> str:
        """Return protocol and ports of the narrowest rule."""
        return min(self.rules, key=lambda rule: rule.all_traffic).ports


def openings(stack: Stack, judged: Callable[[TrafficRule], bool]) -> Iterator[Opening]:
    """Yield at most one opening of each group, and of each resource with several groups."""
    by_group: dict[str, list[TrafficRule]] = defaultdict(list)
    for rule in rules(stack):
        if judged(rule):
            by_group[rule.group or rule.resource.urn].append(rule)
    for same in by_group.values():
        for opened, widest in _opened(same):
            yield Opening(opened, widest, opened[-1].resource.urn, opened[-1].networks[-1][0])
            break
    for use in used_together(stack):
        found = [rule for group in use.groups for rule in by_group.get(group, ())]
        for opened, widest in _opened(found):
            if len({rule.group for rule in opened}) > 1:
                yield Opening(opened, widest, use.resource.urn, use.prop)
                break


def used_together(stack: Stack) -> list[Use]:
    """Return the sets of groups that one resource has, each set once."""
    ids = {each.get("id"): each.urn for each in stack.of_type(*GROUPS)}
    found: dict[frozenset[str], Use] = {}
    for resource in map(declared, stack.of_type(*USERS)):
        groups: set[str] = set()
        shown = ""
        for place in _LISTS[resource.type]:
            top = place.partition("[")[0].partition(".")[0]
            for path, value in (each for at in expanded(resource, place) for each in resource.items(at)):
                shown = shown or path
                if isinstance(value, str) and value in ids:
                    groups.add(ids[value])
                elif holds_unknown(value):
                    groups |= {each.urn for each in stack.references(resource, top, types=GROUPS)}
        if len(groups) > 1:
            found.setdefault(frozenset(groups), Use(resource, shown, frozenset(groups)))
    return list(found.values())


def _opened(found: Sequence[TrafficRule]) -> Iterator[tuple[tuple[TrafficRule, ...], str]]:
    """Yield sets of at least two rules that open a port together. The most rules apply where one starts."""
    alone = [rule for rule in found if rule.networks and world(block for _, block in rule.networks) is None]
    for protocol in dict.fromkeys(_protocol(rule) for rule in alone):
        same = [rule for rule in alone if rule.all_traffic or _protocol(rule) == protocol]
        for first in sorted({rule.start for rule in same}):
            covering = tuple(rule for rule in same if rule.all_traffic or rule.includes(first))
            widest = world(block for rule in covering for _, block in rule.networks)
            if widest is not None:
                yield covering, widest
                break


def _protocol(rule: TrafficRule) -> str:
    name = str(rule.protocol).strip().lower()
    return _NUMBERS.get(name, name)


_NUMBERS = {"tcp": "6", "udp": "17", "sctp": "132", "icmp": "1", "icmpv6": "58"}
