"""VPNs: the router's address and BGP number, the networks behind it, and racks that need one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpufleet.errors import SpecError
from tests.unit.checks.fleets import FLEET, GONE, Judge
from tests.unit.checks.test_cloud_slurm import launched

VPN = "cloud.0.network.vpn"
WHERE = "cloud[0].network.vpn"
ROUTER: dict[str, Any] = {"gateway": "203.0.113.7", "networks": ["10.60.0.0/22"]}


def vpn(**changes: Any) -> dict[str, Any]:
    """The change that adds a VPN to the first cloud site."""
    return {VPN: {**ROUTER, **changes}}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"asn": 65010},
        {"asn": 4200000000},
        {"static": True},
        {"networks": ["10.60.0.0/22", "192.168.0.0/16"]},
        {"networks": []},
    ],
)
def test_declared_vpn_passes(judge: Judge, changes: dict[str, Any]) -> None:
    assert judge(vpn(**changes)).rules == set()


@pytest.mark.parametrize(
    ("gateway", "message"),
    [
        ("10.1.2.3", "10.1.2.3 is a private address: AWS cannot reach the router there"),
        ("100.64.0.9", "100.64.0.9 is a private address"),
        ("127.0.0.1", "127.0.0.1 is for the host itself (RFC 1122)"),
        ("224.0.0.5", "224.0.0.5 is for multicast (RFC 5771)"),
        ("203.0.113.700", "'203.0.113.700' is no IPv4 address"),
    ],
)
def test_router_needs_a_public_ipv4_address(judge: Judge, gateway: str, message: str) -> None:
    finding = judge(vpn(gateway=gateway)).only("vpn-gateway")
    assert (finding.field, finding.value) == (f"{WHERE}.gateway", gateway)
    assert finding.message.startswith(message)
    assert finding.remedy.startswith("write the ")


@pytest.mark.parametrize("gateway", ["router.example.com", "2001:db8::1", "203.0.113.7/32"])
def test_name_or_other_address_is_refused_by_its_form(judge: Judge, gateway: str) -> None:
    with pytest.raises(SpecError) as error:
        judge(vpn(gateway=gateway))
    (finding,) = error.value.findings
    assert (finding.field, finding.value) == (f"{WHERE}.gateway", gateway)
    assert finding.message == "'gateway' has to be an IPv4 address"
    assert finding.remedy == "write for example 203.0.113.7"


@pytest.mark.parametrize(
    ("asn", "reason"),
    [
        (64512, "that of AWS's side of the VPN"),
        (7224, "AWS's own in us-east-1"),
        (9059, "AWS's own in eu-west-1"),
        (10124, "AWS's own in ap-northeast-1"),
        (17943, "AWS's own in ap-southeast-1"),
        (23456, "reserved (AS_TRANS, RFC 6793)"),
    ],
)
def test_number_of_aws_or_a_reserved_one_is_refused(judge: Judge, asn: int, reason: str) -> None:
    finding = judge(vpn(asn=asn)).only("vpn-asn")
    assert (finding.field, finding.message) == (f"{WHERE}.asn", f"ASN {asn} is {reason}")
    assert "such as 'asn: 65000'" in finding.remedy


@pytest.mark.parametrize("asn", [0, 4294967295])
def test_number_out_of_range_is_refused(judge: Judge, asn: int) -> None:
    with pytest.raises(SpecError) as error:
        judge(vpn(asn=asn))
    assert [each.field for each in error.value.findings] == [f"{WHERE}.asn"]


def test_network_that_overlaps_the_site_is_refused(judge: Judge) -> None:
    finding = judge(vpn(networks=["10.60.0.0/22", "10.40.8.0/24"])).only("vpn-networks")
    assert (finding.field, finding.value) == (f"{WHERE}.networks[1]", "10.40.8.0/24")
    assert "10.40.8.0/24 overlaps 10.40.0.0/16, the network of site 'use1'" in finding.message


def test_network_that_repeats_is_refused(judge: Judge) -> None:
    finding = judge(vpn(networks=["10.60.0.0/22", "10.60.0.0/22"])).only("vpn-networks")
    assert (finding.field, finding.remedy) == (f"{WHERE}.networks[1]", "list it once")


def test_network_has_to_be_a_valid_cidr(judge: Judge) -> None:
    assert judge(vpn(networks=["10.60.0.1/22"])).fields("cidr-valid") == [f"{WHERE}.networks[0]"]


def test_networks_are_needed_where_no_rack_site_says_them(judge: Judge) -> None:
    second = {**copy.deepcopy(FLEET["onprem"][0]), "site": "dc2", "nodes": "b[01-02]"}
    second |= {"controllers": "b-ctl", "network": "10.64.0.0/22"}
    second.pop("login", None)
    reported = judge({**vpn(networks=[]), "onprem": [FLEET["onprem"][0], second]})
    finding = next(each for each in reported.findings if each.rule == "vpn-networks")
    assert finding.field == f"{WHERE}.networks"
    assert "the fleet has 2 rack sites" in finding.message
    assert finding.remedy.startswith("write them")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"onprem": []}, "the fleet has no rack site"),
        ({"onprem.0.network": GONE}, "site 'dc1' has no `network`"),
    ],
)
def test_why_nothing_says_the_networks(judge: Judge, changes: dict[str, Any], reason: str) -> None:
    (finding,) = judge({**vpn(networks=[]), **changes}).of("vpn-networks")
    assert finding.message.endswith(f": {reason}")


def test_two_sites_of_a_region_need_two_addresses(judge: Judge) -> None:
    other = launched(**vpn())
    other["cloud"][1] |= {
        "region": "us-east-1",
        "zones": ["us-east-1a"],
        "network": {"cidr": "10.44.0.0/16", "vpn": ROUTER},
    }
    finding = judge(other).only("vpn-gateway")
    assert finding.field == "cloud[1].network.vpn.gateway"
    assert "sites 'use1' and 'usw2' have VPNs to 203.0.113.7" in finding.message


def test_sites_of_two_regions_share_an_address(judge: Judge) -> None:
    both = launched(**vpn(), **{"cloud.1.network.vpn.gateway": ROUTER["gateway"]})
    assert judge(both).rules == set()
