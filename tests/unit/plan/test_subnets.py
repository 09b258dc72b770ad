"""How a site's network is cut."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations

import pytest

from gpufleet.plan.subnets import MAX_ZONES, plan_subnets, usable_addresses

ZONES = [f"us-east-1{letter}" for letter in "abcdefg"]


@pytest.mark.parametrize("cidr", ["10.40.0.0/16", "172.16.0.0/19", "192.168.4.0/22"])
@pytest.mark.parametrize("count", range(1, MAX_ZONES + 1))
def test_every_zone_has_two_separate_subnets_inside_the_vpc(cidr: str, count: int) -> None:
    subnets = plan_subnets(cidr, ZONES[:count])
    assert [(item.zone, item.kind) for item in subnets] == [
        (zone, kind) for zone in ZONES[:count] for kind in ("public", "private")
    ]
    networks = [IPv4Network(item.cidr) for item in subnets]
    assert all(network.subnet_of(IPv4Network(cidr)) for network in networks)
    assert all(network.prefixlen <= 28 for network in networks)
    assert not any(one.overlaps(other) for one, other in combinations(networks, 2))


@pytest.mark.parametrize("count", range(1, MAX_ZONES))
def test_zone_added_at_the_end_moves_no_subnet(count: int) -> None:
    before = plan_subnets("10.40.0.0/16", ZONES[:count])
    assert plan_subnets("10.40.0.0/16", ZONES[: count + 1])[: len(before)] == before


def test_slash_16_is_divided_as_documented() -> None:
    public, private = plan_subnets("10.40.0.0/16", ZONES[:1])
    assert (public.cidr, private.cidr) == ("10.40.224.0/22", "10.40.0.0/19")
    assert usable_addresses(private.cidr) == 8187
    assert usable_addresses(public.cidr) == 1019


@pytest.mark.parametrize(("cidr", "zones"), [("10.0.0.0/23", 1), ("10.0.0.0/16", 8), ("10.0.0.1/16", 1)])
def test_network_that_cannot_be_divided_is_refused(cidr: str, zones: int) -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0|zones"):
        plan_subnets(cidr, [f"z{number}" for number in range(zones)])
