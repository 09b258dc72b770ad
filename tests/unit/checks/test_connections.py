"""Rack sites whose Slurm launches cloud nodes need a connection to them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.unit.checks.fleets import FLEET, GONE, Judge
from tests.unit.checks.test_cloud_slurm import launched

ROUTER: dict[str, Any] = {"gateway": "203.0.113.7", "networks": ["10.70.0.0/22"]}
DIRECT: dict[str, Any] = {"gateway": "5f294f92-bafb-4011-916d-9b0bec1f4f35", "networks": ["10.60.0.0/22"]}


def test_slurm_site_without_a_connection_to_its_controllers_gets_a_hint(judge: Judge) -> None:
    finding = judge(launched(**{"cloud.1.network.vpn": GONE})).only("vpn-slurm", "warning")
    assert finding.field == "cloud[1].slurm.controllers"
    assert "no VPN or Direct Connect of this fleet connects site 'usw2' to 10.60.0.0/" in finding.message
    assert "'vpn: {gateway: 203.0.113.7}', or `network.direct_connect`" in finding.remedy


def test_slurm_site_with_a_vpn_to_other_networks_gets_a_hint(judge: Judge) -> None:
    finding = judge(launched(**{"cloud.1.network.vpn": ROUTER})).only("vpn-slurm", "warning")
    assert finding.remedy.endswith("to `networks` of `network.vpn`")
    invalid = {**ROUTER, "networks": ["10.60.0.1/22"]}
    assert judge(launched(**{"cloud.1.network.vpn": invalid})).rules == {"cidr-valid", "vpn-slurm"}


def test_slurm_site_with_direct_connect_to_other_networks_gets_a_hint(judge: Judge) -> None:
    other = {**DIRECT, "networks": ["10.70.0.0/22"]}
    changes = {"cloud.1.network.vpn": GONE, "cloud.1.network.direct_connect": other}
    finding = judge(launched(**changes)).only("vpn-slurm", "warning")
    assert finding.remedy.endswith("to `networks` of `network.direct_connect`")


def test_slurm_site_with_a_connection_to_its_controllers_gets_none(judge: Judge) -> None:
    assert judge(launched()).rules == set()
    direct = {"cloud.1.network.vpn": GONE, "cloud.1.network.direct_connect": DIRECT}
    assert judge(launched(**direct)).rules == set()
    both = {"cloud.1.network.vpn": ROUTER, "cloud.1.network.direct_connect": DIRECT}
    assert judge(launched(**both)).rules == set()


@pytest.mark.parametrize(
    "changes",
    [
        {"cloud.1.slurm": GONE},
        {"cloud.1.scheduler": "kubernetes"},
        {"cloud.1.slurm.controllers": "lab"},
        {"onprem.0.network": GONE},
        {"onprem.0.network": "10.60.0.1/22"},
    ],
)
def test_site_without_a_known_network_of_controllers_gets_none(judge: Judge, changes: dict[str, Any]) -> None:
    assert "vpn-slurm" not in judge(launched(**{"cloud.1.network.vpn": GONE}, **changes)).rules


def test_connection_has_to_lead_to_the_racks_of_the_controllers(judge: Judge) -> None:
    other = {**copy.deepcopy(FLEET["onprem"][0]), "site": "dc0", "network": "10.70.0.0/24"}
    changes = {"onprem": [other, FLEET["onprem"][0]], "cloud.1.network.vpn": ROUTER}
    (finding,) = judge(launched(**changes)).of("vpn-slurm")
    assert "to 10.60.0.0/24, the network of site 'dc1'" in finding.message
