"""CIDRs: well-formed, large enough, disjoint, not open to all."""

from __future__ import annotations

import copy

import pytest

from tests.unit.checks.fleets import FLEET, Judge

CIDR = "cloud.0.network.cidr"


def _second_site(cidr: str, zone: str = "us-west-2") -> dict[str, object]:
    site: dict[str, object] = copy.deepcopy(FLEET["cloud"][0])
    site |= {
        "site": "usw2",
        "region": zone,
        "zones": [f"{zone}a", f"{zone}b"],
        "network": {"cidr": cidr},
        "node_groups": [],
        "storage": [],
        "kubernetes": {"version": "1.35", "private_cidrs": ["10.60.0.0/24"]},
    }
    return site


def test_overlapping_cidrs_of_two_cloud_sites_are_refused(judge: Judge) -> None:
    finding = judge({"cloud.+": _second_site("10.40.128.0/17")}).only("cidr-overlap")
    assert finding.field == "cloud[1].network.cidr"
    assert finding.value == "10.40.128.0/17"
    assert "'use1'" in finding.message
    assert "10.41.0.0/17" in finding.remedy


def test_rack_network_inside_a_cloud_network_is_refused(judge: Judge) -> None:
    finding = judge({"onprem.0.network": "10.40.7.0/24"}).only("cidr-overlap")
    assert finding.field == "onprem[0].network"
    assert "10.40.0.0/16" in finding.message


def test_adjacent_networks_do_not_overlap(judge: Judge) -> None:
    assert judge({"cloud.+": _second_site("10.41.0.0/16")}).rules == set()


@pytest.mark.parametrize(
    ("cidr", "remedy"),
    [
        ("10.40.0.1/16", "10.40.0.0/16"),
        ("10.40.0.0/33", "10.40.0.0/16"),
        ("fd00::/64", "10.40.0.0/16"),
        ("abba", "10.40.0.0/16"),
    ],
)
def test_invalid_cidr_is_refused_with_a_valid_one(judge: Judge, cidr: str, remedy: str) -> None:
    finding = judge({CIDR: cidr}).only("cidr-valid")
    assert finding.field == "cloud[0].network.cidr"
    assert finding.value == cidr
    assert remedy in finding.remedy


@pytest.mark.parametrize(("cidr", "word"), [("10.0.0.0/15", "larger"), ("10.40.0.0/23", "too small")])
def test_network_outside_the_vpc_limits_is_refused(judge: Judge, cidr: str, word: str) -> None:
    finding = judge({CIDR: cidr}).only("cidr-size")
    assert word in finding.message
    assert "/16" in finding.remedy or "/22" in finding.remedy


def test_network_smaller_than_the_aws_minimum_is_refused(judge: Judge) -> None:
    assert "/28" in judge({CIDR: "10.40.0.0/29"}).only("cidr-size").message


@pytest.mark.parametrize("cidr", ["10.40.0.0/16", "10.40.0.0/20"])
def test_networks_that_can_be_split_pass(judge: Judge, cidr: str) -> None:
    assert judge({CIDR: cidr}).rules == set()


def test_public_addresses_of_others_are_a_warning(judge: Judge) -> None:
    judge({CIDR: "8.8.0.0/16"}).only("cidr-private", "warning")


def test_kubernetes_api_open_to_the_world_is_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.kubernetes.public_cidrs": ["203.0.113.0/24", "0.0.0.0/0"]}).only(
        "public-endpoint"
    )
    assert finding.field == "cloud[0].kubernetes.public_cidrs[1]"
    assert finding.value == "0.0.0.0/0"


def test_private_network_in_the_public_list_is_a_warning(judge: Judge) -> None:
    judge({"cloud.0.kubernetes.public_cidrs": ["10.0.0.0/8"]}).only("public-endpoint", "warning")


@pytest.mark.parametrize(
    "cidr", ["127.0.0.0/16", "169.254.0.0/20", "169.254.0.0/16", "224.1.0.0/16", "0.4.0.0/16", "255.0.0.0/16"]
)
def test_vpc_of_reserved_addresses_is_refused(judge: Judge, cidr: str) -> None:
    finding = judge({CIDR: cidr}).only("cidr-reserved")
    assert finding.field == "cloud[0].network.cidr"
    assert finding.value == cidr


@pytest.mark.parametrize("cidr", ["100.64.0.0/16", "172.16.0.0/16", "192.168.0.0/16"])
def test_vpc_of_private_addresses_passes(judge: Judge, cidr: str) -> None:
    assert judge({CIDR: cidr}).rules == set()


def test_rack_network_of_reserved_addresses_is_refused(judge: Judge) -> None:
    judge({"onprem.0.network": "169.254.1.0/24"}).only("cidr-reserved")


def test_more_nodes_than_addresses_are_refused(judge: Judge) -> None:
    said = judge(
        {
            CIDR: "10.40.0.0/22",
            "cloud.0.node_groups.0.capacity": {"on_demand": {"max": 200}},
            "budget.monthly": "90000000 USD",
        }
    )
    finding = said.only("subnet-addresses")
    assert "200 nodes" in finding.message
    assert "123" in finding.message


def test_more_pods_than_addresses_are_refused(judge: Judge) -> None:
    finding = judge({CIDR: "10.40.0.0/22"}).only("subnet-addresses")
    assert "use a /21" in finding.remedy
    assert judge({CIDR: "10.40.0.0/21"}).rules == set()


def test_rack_network_smaller_than_its_hosts_is_refused(judge: Judge) -> None:
    finding = judge({"onprem.0.network": "10.60.0.0/29"}).only("onprem-network-size")
    assert "11 hosts" in finding.message
    assert "/28" in finding.remedy
