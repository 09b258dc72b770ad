"""Direct Connect: ids, networks behind the gateway, its account, and how many sites it takes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpufleet.errors import SpecError
from tests.unit.checks.fleets import FLEET, Judge
from tests.unit.checks.test_cloud_slurm import launched

GATEWAY = "5f294f92-bafb-4011-916d-9b0bec1f4f35"
WHERE = "cloud[0].network.direct_connect"
DIRECT: dict[str, Any] = {"gateway": GATEWAY, "networks": ["10.60.0.0/22"]}


def direct(**changes: Any) -> dict[str, Any]:
    """The change that adds Direct Connect to the first cloud site."""
    return {"cloud.0.network.direct_connect": {**DIRECT, **changes}}


@pytest.mark.parametrize(
    "changes", [{}, {"owner": "012345678901"}, {"networks": []}, {"networks": ["192.168.0.0/16"]}]
)
def test_declared_direct_connect_passes(judge: Judge, changes: dict[str, Any]) -> None:
    assert judge(direct(**changes)).rules == set()


def test_vpn_to_the_same_networks_is_its_backup(judge: Judge) -> None:
    vpn = {"cloud.0.network.vpn": {"gateway": "203.0.113.7", "networks": DIRECT["networks"]}}
    assert judge(direct() | vpn).rules == set()


@pytest.mark.parametrize(
    "gateway",
    ["dxgw-0123456789", "5f294f92bafb4011916d9b0bec1f4f35", GATEWAY.upper(), "vgw-0123456789abcdef0"],
)
def test_id_of_another_form_is_refused(judge: Judge, gateway: str) -> None:
    with pytest.raises(SpecError) as error:
        judge(direct(gateway=gateway))
    (finding,) = error.value.findings
    assert (finding.field, finding.value) == (f"{WHERE}.gateway", gateway)
    assert "the ID of a Direct Connect gateway" in finding.message
    assert GATEWAY in finding.remedy


@pytest.mark.parametrize("owner", ["12345678901", "1234-5678-9012", "net-team"])
def test_owner_is_an_account(judge: Judge, owner: str) -> None:
    with pytest.raises(SpecError) as error:
        judge(direct(owner=owner))
    (finding,) = error.value.findings
    assert (finding.field, finding.value) == (f"{WHERE}.owner", owner)
    assert "twelve digits" in finding.message


def test_network_that_overlaps_the_site_is_refused(judge: Judge) -> None:
    finding = judge(direct(networks=["10.60.0.0/22", "10.40.8.0/24"])).only("direct-connect-networks")
    assert (finding.field, finding.value) == (f"{WHERE}.networks[1]", "10.40.8.0/24")
    assert finding.message.endswith("it is never reached through Direct Connect")


def test_network_has_to_be_a_valid_cidr(judge: Judge) -> None:
    assert judge(direct(networks=["10.60.0.1/22"])).fields("cidr-valid") == [f"{WHERE}.networks[0]"]
    own = {**direct(), "cloud.0.network.cidr": "10.40.0.1/16"}
    assert judge(own).fields("cidr-valid") == ["cloud[0].network.cidr"]


def test_networks_are_needed_where_no_rack_site_says_them(judge: Judge) -> None:
    second = {**copy.deepcopy(FLEET["onprem"][0]), "site": "dc2", "nodes": "b[01-02]"}
    second |= {"controllers": "b-ctl", "network": "10.64.0.0/22"}
    second.pop("login", None)
    reported = judge({**direct(networks=[]), "onprem": [FLEET["onprem"][0], second]})
    finding = next(each for each in reported.findings if each.rule == "direct-connect-networks")
    assert finding.field == f"{WHERE}.networks"
    assert finding.message.startswith(
        f"nothing says which networks are behind Direct Connect gateway {GATEWAY}: the fleet has 2 rack sites"
    )


def test_gateway_has_one_owner(judge: Judge) -> None:
    changes = direct() | {"cloud.1.network.direct_connect": {**DIRECT, "owner": "444455556666"}}
    finding = judge(launched(**changes)).only("direct-connect-gateway")
    assert (finding.field, finding.value) == ("cloud[1].network.direct_connect.owner", "444455556666")
    assert f"different owners of Direct Connect gateway {GATEWAY}: none and 444455556666" in finding.message
    other = direct(owner="444455556666") | {"cloud.1.network.direct_connect": DIRECT}
    finding = judge(launched(**other)).only("direct-connect-gateway")
    assert (finding.value, finding.message.endswith("444455556666 and none")) == ("none", True)


@pytest.mark.parametrize(("sites", "refused"), [(20, []), (21, [20])])
def test_gateway_takes_20_sites(judge: Judge, sites: int, refused: list[int]) -> None:
    first = FLEET["cloud"][0]
    many = [
        {
            **copy.deepcopy(first),
            "site": f"s{index}",
            "network": {"cidr": f"10.{100 + index}.0.0/16", "direct_connect": DIRECT},
            "node_groups": [],
            "storage": [],
        }
        for index in range(sites)
    ]
    found = judge({"cloud": many}).fields("direct-connect-gateway")
    assert found == [f"cloud[{index}].network.direct_connect.gateway" for index in refused]
