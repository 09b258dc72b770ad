"""The VPN of a cloud site: what the fleet file declares, and its defaults."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.models import KeyPlan, LogGroupPlan
from gpufleet.plan.vpn import VpnPlan
from tests.unit.plan.fleets import CATALOG, cloud_site, rack_site, spec

ROUTER = "203.0.113.7"


def planned(vpn: dict[str, Any] | None, *racks: dict[str, Any]) -> VpnPlan | None:
    network = {"cidr": "10.40.0.0/16"} | ({} if vpn is None else {"vpn": vpn})
    fleet = spec(cloud=[cloud_site(network=network)], onprem=list(racks))
    return build_plan(fleet, CATALOG).cloud[0].vpn


def test_site_without_a_vpn_has_none() -> None:
    assert planned(None, rack_site(network="10.60.0.0/22")) is None


def test_declared_values_are_kept() -> None:
    networks = ["10.60.0.0/22", "10.64.0.0/22"]
    vpn = {"gateway": ROUTER, "asn": 65010, "networks": networks, "static": True, "logs": True}
    found = planned(vpn, rack_site(network="10.90.0.0/22"))
    assert found == VpnPlan(ROUTER, 65010, 64512, ("10.60.0.0/22", "10.64.0.0/22"), static=True, logs=True)


def test_router_has_a_private_number_and_bgp_unless_declared() -> None:
    found = planned({"gateway": ROUTER}, rack_site(network="10.60.0.0/22"))
    assert found == VpnPlan(ROUTER, 65000, 64512, ("10.60.0.0/22",), static=False)


@pytest.mark.parametrize(
    "racks",
    [
        [],
        [rack_site(network=None)],
        [rack_site(network="10.60.0.0/22"), rack_site(site="r2", nodes="n[01-02]", network="10.64.0.0/22")],
    ],
    ids=["no rack site", "no network", "two rack sites"],
)
def test_networks_have_no_default_unless_there_is_one_rack_site_with_a_network(
    racks: list[dict[str, Any]],
) -> None:
    found = planned({"gateway": ROUTER}, *racks)
    assert found is not None
    assert found.networks == ()


@pytest.mark.parametrize("logs", [False, True])
def test_logs_have_a_log_group_and_a_key(logs: bool) -> None:
    network = {"cidr": "10.40.0.0/16", "vpn": {"gateway": ROUTER, "logs": logs}}
    site = build_plan(spec(cloud=[cloud_site(network=network)]), CATALOG).cloud[0]
    name = "/aws/vendedlogs/gpufleet/atlas-test-use1/vpn"
    assert (LogGroupPlan(name, 365) in site.log_groups) is logs
    assert (KeyPlan("atlas-test-use1-vpn-logs", "network") in site.keys) is logs
