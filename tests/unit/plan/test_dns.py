"""DNS of a cloud site: domains, endpoints, and the networks that may query it."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.dns import DnsPlan, ForwardPlan
from tests.unit.plan.fleets import CATALOG, cloud_site, rack_site, spec

VPN = {"gateway": "203.0.113.7", "networks": ["10.60.0.0/22", "10.64.0.0/22"]}
DIRECT = {"gateway": "5f294f92-bafb-4011-916d-9b0bec1f4f35", "networks": ["10.64.0.0/22", "10.68.0.0/22"]}
FORWARD = {"domain": "Corp.Example", "servers": ["10.60.0.53", "10.60.1.53"]}


def planned(dns: dict[str, Any] | None, **network: Any) -> DnsPlan | None:
    more = network | ({} if dns is None else {"dns": dns})
    site = cloud_site(network={"cidr": "10.40.0.0/16", **more})
    fleet = spec(cloud=[site], onprem=[rack_site(network="10.90.0.0/22")])
    return build_plan(fleet, CATALOG).cloud[0].dns


def test_site_without_dns_has_none() -> None:
    assert planned(None, vpn=VPN) is None


def test_declared_domains_are_kept_in_lower_case() -> None:
    found = planned({"forward": [FORWARD]}, vpn=VPN)
    assert found is not None
    assert found.forward == (ForwardPlan("corp.example", ("10.60.0.53", "10.60.1.53")),)
    assert found.inbound is False


def test_networks_are_those_of_all_connections_each_once() -> None:
    found = planned({"inbound": True}, vpn=VPN, direct_connect=DIRECT)
    assert found is not None
    assert found.networks == ("10.60.0.0/22", "10.64.0.0/22", "10.68.0.0/22")


def test_networks_are_those_of_the_only_rack_site_where_a_connection_has_none() -> None:
    found = planned({"inbound": True}, vpn={"gateway": "203.0.113.7"})
    assert found is not None
    assert found.networks == ("10.90.0.0/22",)


@pytest.mark.parametrize(
    ("dns", "directions"),
    [
        ({"inbound": True}, ("inbound",)),
        ({"forward": [FORWARD]}, ("outbound",)),
        ({"forward": [FORWARD], "inbound": True}, ("inbound", "outbound")),
    ],
)
def test_each_direction_that_is_used_has_an_endpoint(
    dns: dict[str, Any], directions: tuple[str, ...]
) -> None:
    found = planned(dns, vpn=VPN)
    assert found is not None
    assert found.directions == directions
