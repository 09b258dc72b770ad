"""How a site's CIDR is cut into one public and one private subnet per zone.

The cut never depends on how many zones there are: a zone added at the end gets the next slot and
no other subnet moves (a subnet whose CIDR changes is a replacement of everything in it).
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Literal

from msgspec import Struct

SLOTS = 8
"""A VPC is cut into eight: one slot for each zone's private subnet, the last for all public ones."""

MAX_ZONES = SLOTS - 1

LONGEST_PREFIX = 22
"""The smallest VPC that can be cut: its public subnets are /28, the smallest that AWS makes."""

RESERVED_BY_AWS = 5
"""Addresses that AWS keeps of each subnet (network, router, DNS, future use, broadcast)."""


class SubnetPlan(Struct, frozen=True):
    """A subnet: one public and one private per zone."""

    zone: str
    kind: Literal["public", "private"]
    cidr: str


def plan_subnets(cidr: str, zones: Sequence[str]) -> tuple[SubnetPlan, ...]:
    """A public and a private subnet for each zone, in the order of `zones`.

    A /16 gives private subnets of 8,187 addresses and public ones of 1,019: nodes and pods live in
    the private ones, load balancers and NAT gateways in the public ones. Raises ValueError for a
    CIDR that is not a network, is smaller than /22, or for more than seven zones; `gpufleet.checks`
    says the same to users first.
    """
    network = IPv4Network(cidr)
    if network.prefixlen > LONGEST_PREFIX:
        raise ValueError(f"{cidr} is smaller than /{LONGEST_PREFIX}, the least that can be cut into subnets")
    if len(zones) > MAX_ZONES:
        raise ValueError(f"{len(zones)} zones are more than the {MAX_ZONES} that a VPC is cut for")
    slots = list(network.subnets(prefixlen_diff=3))
    public = list(slots[-1].subnets(prefixlen_diff=3))
    subnets: list[SubnetPlan] = []
    for index, zone in enumerate(zones):
        subnets.append(SubnetPlan(zone, "public", str(public[index])))
        subnets.append(SubnetPlan(zone, "private", str(slots[index])))
    return tuple(subnets)


def usable_addresses(cidr: str) -> int:
    """Addresses of a subnet that machines can have."""
    return IPv4Network(cidr).num_addresses - RESERVED_BY_AWS
