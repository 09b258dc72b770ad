"""Direct Connect of a cloud site: what the fleet file declares, and its defaults."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.direct_connect import DirectConnectPlan
from tests.unit.plan.fleets import CATALOG, cloud_site, rack_site, spec

GATEWAY = "5f294f92-bafb-4011-916d-9b0bec1f4f35"


def planned(direct: dict[str, Any] | None, *racks: dict[str, Any]) -> DirectConnectPlan | None:
    network = {"cidr": "10.40.0.0/16"} | ({} if direct is None else {"direct_connect": direct})
    fleet = spec(cloud=[cloud_site(network=network)], onprem=list(racks))
    return build_plan(fleet, CATALOG).cloud[0].direct_connect


def test_site_without_direct_connect_has_none() -> None:
    assert planned(None, rack_site(network="10.60.0.0/22")) is None


def test_declared_values_are_kept() -> None:
    direct = {"gateway": GATEWAY, "owner": "012345678901", "networks": ["10.64.0.0/22"]}
    found = planned(direct, rack_site(network="10.90.0.0/22"))
    assert found == DirectConnectPlan(GATEWAY, "012345678901", ("10.64.0.0/22",))


@pytest.mark.parametrize(
    ("racks", "networks"),
    [
        ([rack_site(network="10.60.0.0/22")], ("10.60.0.0/22",)),
        ([], ()),
        (
            [
                rack_site(network="10.60.0.0/22"),
                rack_site(site="r2", nodes="n[01-02]", network="10.64.0.0/22"),
            ],
            (),
        ),
    ],
    ids=["one rack site", "none", "two"],
)
def test_networks_are_those_of_the_only_rack_site(
    racks: list[dict[str, Any]], networks: tuple[str, ...]
) -> None:
    assert planned({"gateway": GATEWAY}, *racks) == DirectConnectPlan(GATEWAY, None, networks)
