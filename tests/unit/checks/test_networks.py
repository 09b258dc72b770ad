"""CIDRs: well-formed, large enough, disjoint, not open to all."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.unit.checks.fleets import FLEET, GONE, Judge

CIDR = "cloud.0.network.cidr"
SLURM: dict[str, Any] = {"cloud.0.scheduler": "slurm", "cloud.0.kubernetes": None}
SWEEP = FLEET["cloud"][0]["node_groups"][3]
RICH = {"budget.monthly": "90000000 USD"}


def _nodes(number: int) -> dict[str, Any]:
    """The changes for this number of nodes in one group, in the zone us-east-1a."""
    return {"cloud.0.node_groups.0.capacity": {"on_demand": {"max": number}}} | RICH


def second_site(cidr: str, zone: str = "us-west-2") -> dict[str, object]:
    """A copy of the first site in another network."""
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
    finding = judge({"cloud.+": second_site("10.40.128.0/17")}).only("cidr-overlap")
    assert finding.field == "cloud[1].network.cidr"
    assert finding.value == "10.40.128.0/17"
    assert "'use1'" in finding.message
    assert "10.41.0.0/17" in finding.remedy


def test_each_overlapping_site_gets_another_free_network(judge: Judge) -> None:
    third = second_site("10.40.0.0/16", "eu-west-1") | {"site": "euw1"}
    sites = [FLEET["cloud"][0], second_site("10.40.0.0/16"), third]
    remedies = [found.remedy for found in judge({"cloud": sites}).of("cidr-overlap")]
    assert [remedy.split("'")[1] for remedy in remedies] == ["10.41.0.0/16", "10.42.0.0/16", "10.42.0.0/16"]


@pytest.mark.parametrize(
    ("cidr", "remedy"),
    [
        ("8.0.0.0/16", "write '10.0.0.0/16', or another free network"),
        ("192.168.0.0/16", "use a free network"),
    ],
)
def test_free_network_is_in_the_largest_private_range(judge: Judge, cidr: str, remedy: str) -> None:
    finding = judge({CIDR: cidr, "cloud.+": second_site(cidr)}).of("cidr-overlap")[0]
    assert finding.remedy == remedy


def test_rack_network_inside_a_cloud_network_is_refused(judge: Judge) -> None:
    finding = judge({"onprem.0.network": "10.40.7.0/24"}).only("cidr-overlap")
    assert finding.field == "onprem[0].network"
    assert "10.40.0.0/16" in finding.message


def test_adjacent_networks_do_not_overlap(judge: Judge) -> None:
    assert judge({"cloud.+": second_site("10.41.0.0/16")}).rules == set()


@pytest.mark.parametrize(
    ("cidr", "remedy"),
    [
        ("10.40.0.1/16", "write '10.40.0.0/16', or a longer prefix"),
        ("10.40.0.1/15", "write the network address and its prefix, such as 10.40.0.0/16"),
        ("127.0.0.1/16", "write the network address and its prefix, such as 10.40.0.0/16"),
        ("10.40.0.0/33", "write a network and a prefix, such as 10.40.0.0/16"),
        ("fd00::/64", "write a network and a prefix, such as 10.40.0.0/16"),
        ("abba", "write a network and a prefix, such as 10.40.0.0/16"),
    ],
)
def test_invalid_cidr_is_refused_with_a_valid_one(judge: Judge, cidr: str, remedy: str) -> None:
    finding = judge({CIDR: cidr}).only("cidr-valid")
    assert finding.field == "cloud[0].network.cidr"
    assert finding.value == cidr
    assert finding.remedy == remedy


@pytest.mark.parametrize("key", ["public_cidrs", "private_cidrs"])
def test_invalid_cidrs_of_the_kubernetes_api_are_refused(judge: Judge, key: str) -> None:
    finding = judge({f"cloud.0.kubernetes.{key}": ["10.60.0.0/24", "abba"]}).of("cidr-valid")[0]
    assert finding.field == f"cloud[0].kubernetes.{key}[1]"


def test_sites_without_kubernetes_or_a_network_pass(judge: Judge) -> None:
    assert judge(SLURM | {"onprem.0.network": GONE}).rules == {"slurm-cloud-unconnected"}


@pytest.mark.parametrize(("cidr", "word"), [("10.0.0.0/15", "larger"), ("10.40.0.0/23", "too small")])
def test_network_outside_the_vpc_limits_is_refused(judge: Judge, cidr: str, word: str) -> None:
    finding = judge({CIDR: cidr}).only("cidr-size")
    assert word in finding.message
    assert "/16" in finding.remedy or "/22" in finding.remedy


@pytest.mark.parametrize(("cidr", "smaller"), [("10.40.0.0/28", False), ("10.40.0.0/29", True)])
def test_network_smaller_than_the_aws_minimum_is_refused(judge: Judge, cidr: str, smaller: bool) -> None:
    message = judge({CIDR: cidr}).only("cidr-size").message
    assert message.endswith("smaller than the minimum of a VPC (/28)") is smaller


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
    reported = judge(
        {
            CIDR: "10.40.0.0/22",
            "cloud.0.node_groups.0.capacity": {"on_demand": {"max": 200}},
            "budget.monthly": "90000000 USD",
        }
    )
    finding = reported.only("subnet-addresses")
    assert "200 nodes" in finding.message
    assert "123" in finding.message


@pytest.mark.parametrize(("nodes", "found"), [(123, 0), (124, 1)])
def test_nodes_of_slurm_fill_their_zone_exactly(judge: Judge, nodes: int, found: int) -> None:
    reported = judge({CIDR: "10.40.0.0/22"} | _nodes(nodes) | SLURM)
    assert len(reported.of("subnet-addresses")) == found


@pytest.mark.parametrize(
    ("cidr", "nodes", "remedy"),
    [
        ("10.40.0.0/17", 157, []),
        ("10.40.0.0/17", 158, ["use a /16"]),
        ("10.40.0.0/16", 321, []),
        ("10.40.0.0/16", 322, ["use more zones or sites"]),
    ],
)
def test_pods_of_all_groups_need_addresses(judge: Judge, cidr: str, nodes: int, remedy: list[str]) -> None:
    reported = judge({CIDR: cidr} | _nodes(nodes))  # 6 nodes are in the other groups
    assert [found.remedy for found in reported.of("subnet-addresses")] == remedy


def test_addresses_are_not_counted_in_unknown_zones_or_without_subnets(judge: Judge) -> None:
    assert judge({"cloud.0.node_groups.0.zones": ["us-east-1f"]}).rules == {"zone-in-site"}
    zones = [f"us-west-2{letter}" for letter in "abcdefgh"]
    site = second_site("10.41.0.0/22", "us-west-2") | {"node_groups": [copy.deepcopy(SWEEP)]}
    site["node_groups"][0]["capacity"] = {"spot": {"max": 20}}
    fields = judge({"cloud.+": site | {"zones": zones[:7]}}).fields("subnet-addresses")
    assert fields == ["cloud[1].network.cidr"]
    assert judge({"cloud.+": site | {"zones": zones}}).of("subnet-addresses") == []


def test_more_pods_than_addresses_are_refused(judge: Judge) -> None:
    finding = judge({CIDR: "10.40.0.0/22"}).only("subnet-addresses")
    assert "use a /21" in finding.remedy
    assert judge({CIDR: "10.40.0.0/21"}).rules == set()


def test_rack_network_smaller_than_its_hosts_is_refused(judge: Judge) -> None:
    finding = judge({"onprem.0.network": "10.60.0.0/29"}).only("onprem-network-size")
    assert "11 hosts" in finding.message
    assert "/28" in finding.remedy


@pytest.mark.parametrize(("last", "remedy"), [("11", []), ("12", ["use a /27 or larger"])])
def test_rack_network_has_room_for_exactly_its_hosts(judge: Judge, last: str, remedy: list[str]) -> None:
    more = {"onprem.0.nodes": f"dgx[01-{last}]", "onprem.0.bmc": f"bmc[01-{last}]"}
    reported = judge({"onprem.0.network": "10.60.0.0/28"} | more)  # and three other hosts
    assert [found.remedy for found in reported.of("onprem-network-size")] == remedy


def test_rack_network_has_room_without_other_hosts(judge: Judge) -> None:
    only_nodes = {"onprem.0.network": "10.60.0.0/28", "onprem.0.login": GONE, "onprem.0.controllers": GONE}
    assert judge(only_nodes).rules == {"slurm-controllers"}
