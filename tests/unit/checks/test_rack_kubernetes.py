"""Kubernetes of rack sites."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.unit.checks.fleets import FLEET, GONE, Judge

SITE = "onprem.0"
KUBERNETES = f"{SITE}.kubernetes"


def rack(**changes: Any) -> dict[str, Any]:
    """The changes that make the fleet's rack a Kubernetes site with one controller."""
    site = copy.deepcopy(FLEET["onprem"][0]) | {"scheduler": "kubernetes", "controllers": "ctl01"}
    return {SITE: site | changes}


def three(mig: list[dict[str, Any]] | None = None, **kubernetes: Any) -> dict[str, Any]:
    """The same with three members behind a virtual address; `kubernetes` changes its settings."""
    return rack(
        mig=mig,
        controllers="ctl[01-03]",
        addresses={f"ctl0{number}": f"10.60.0.1{number}" for number in (1, 2, 3)},
        kubernetes={"endpoint": "10.60.0.10"} | kubernetes,
    )


def test_one_member_and_three_with_a_virtual_address_pass(judge: Judge) -> None:
    assert judge(rack()).rules == set()
    assert judge(three()).rules == set()
    groups = [
        {"name": "shared", "nodes": "dgx[001-002]", "gpu_sharing": {"mps": {"replicas": 4}}},
        {"name": "divided", "nodes": "dgx003"},
    ]
    divided = [{"nodes": "dgx003", "profiles": {"1g.10gb": 7}}]
    assert judge(three(divided, node_groups=groups)).rules == set()


def test_settings_of_kubernetes_on_a_slurm_site_are_refused(judge: Judge) -> None:
    finding = judge({KUBERNETES: {"version": "1.35"}}).only("kubernetes-unused")
    assert finding.field == "onprem[0].kubernetes"


@pytest.mark.parametrize(
    ("controllers", "says"),
    [
        ("ctl[01-02]", "has 2 controllers: an even number stops when half of its members fail"),
        ("ctl[01-04]", "has 4 controllers: an even number stops when half of its members fail"),
        ("ctl[01-05]", "has 5 controllers"),
        (GONE, "has no host for its control plane"),
    ],
)
def test_control_plane_without_a_quorum_is_refused(judge: Judge, controllers: Any, says: str) -> None:
    changes = three()
    changes[SITE]["controllers"] = controllers
    if controllers is GONE:
        changes = rack()
        del changes[SITE]["controllers"]
    found = [item for item in judge(changes).findings if item.rule == "kubernetes-members"]
    assert [item.message.endswith(f" {says}") for item in found] == [True]
    assert found[0].field.startswith("onprem[0]")
    assert found[0].value == ("dc1" if controllers is GONE else controllers)
    assert found[0].severity == "error"


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("10.61.0.10", "is not in the site's network"),
        ("10.60.0.12", "is already the address of 'ctl02'"),
        ("10.60.0.0", "is the first or last address"),
        ("10.60.0.255", "is the first or last address"),
        ("api.example.com", "is not an IPv4 address"),
    ],
)
def test_invalid_virtual_address_is_refused(judge: Judge, endpoint: str, says: str) -> None:
    finding = judge(three(endpoint=endpoint)).only("kubernetes-endpoint")
    assert finding.field == "onprem[0].kubernetes.endpoint"
    assert says in finding.message


def test_three_members_need_a_virtual_address_and_their_own_addresses(judge: Judge) -> None:
    bare = rack(controllers="ctl[01-03]", addresses={"ctl01": "10.60.0.1"})
    finding = judge(bare).only("kubernetes-endpoint")
    assert "no virtual address" in finding.message
    assert finding.remedy == "use a free address of the site's network, such as 10.60.0.2"
    del bare[SITE]["network"]
    assert judge(bare).only("kubernetes-endpoint").remedy == "declare its `network`"
    nowhere = three(endpoint="10.60.0.1")
    del nowhere[SITE]["addresses"]["ctl03"]
    finding = judge(nowhere).only("kubernetes-endpoint")
    assert "'ctl03' has no IPv4 address" in finding.message
    assert finding.remedy == "write '10.60.0.2', or its actual address"
    del nowhere[SITE]["network"]
    assert "write its address" in [found.remedy for found in judge(nowhere).findings]
    homeless = three()
    del homeless[SITE]["network"]
    assert "no `network`" in judge(homeless).only("kubernetes-endpoint").message


@pytest.mark.parametrize(
    "name",
    ["network", "kubernetes.pod_network", "kubernetes.service_network"],
)
def test_invalid_network_is_reported_once(judge: Judge, name: str) -> None:
    changes = three() | {f"{SITE}.{name}": "abba"}
    assert judge(changes).rules == {"cidr-valid" if name == "network" else "kubernetes-networks"}


@pytest.mark.parametrize(
    ("networks", "field", "says"),
    [
        ({"pod_network": "10.60.0.0/16"}, "pod_network", "overlaps the site's network 10.60.0.0/24"),
        ({"service_network": "10.60.0.0/22"}, "service_network", "overlaps the site's network"),
        ({"service_network": "10.244.8.0/24"}, "service_network", "overlaps the pod network 10.244.0.0/16"),
        ({"pod_network": "10.244.0.0/22"}, "pod_network", "room for 4 nodes (a /24 each)"),
        ({"pod_network": "10.244.0.1/16"}, "pod_network", "is not an IPv4 CIDR"),
        ({"service_network": "11.0.0.0/8"}, "service_network", "kube-apiserver allows /12 to /28"),
        ({"service_network": "10.96.0.0/29"}, "service_network", "kube-apiserver allows /12 to /28"),
    ],
)
def test_overlapping_or_invalid_networks_are_refused(
    judge: Judge, networks: dict[str, str], field: str, says: str
) -> None:
    finding = judge(rack(kubernetes=networks)).only("kubernetes-networks")
    assert finding.field == f"onprem[0].kubernetes.{field}"
    assert says in finding.message


def test_remedy_for_a_small_pod_network_is_large_enough(judge: Judge) -> None:
    finding = judge(rack(kubernetes={"pod_network": "10.244.0.0/22"})).only("kubernetes-networks")
    assert "/20" in finding.remedy  # eight nodes and a controller take nine of sixteen /24
    assert judge(rack(kubernetes={"pod_network": "10.244.0.0/20"})).rules == set()


def test_pod_network_has_room_for_exactly_its_nodes(judge: Judge) -> None:
    full = rack(nodes="dgx[001-015]", bmc="bmc[001-015]")  # with the controller 16 nodes
    assert judge(full | {f"{KUBERNETES}.pod_network": "10.244.0.0/20"}).rules == set()
    small = judge(full | {f"{KUBERNETES}.pod_network": "10.244.0.0/21"}).only("kubernetes-networks")
    assert small.remedy == "use a /20 or larger"


def test_minor_that_the_channel_does_not_have_is_refused(judge: Judge) -> None:
    for version in ("1.33", "1.37"):
        finding = judge(rack(kubernetes={"version": version})).only("kubernetes-release")
        assert "1.34, 1.35, 1.36" in finding.remedy
    for version in ("1.34", "1.35", "1.36"):
        assert judge(rack(kubernetes={"version": version})).rules == set()


def test_release_of_an_unknown_channel_is_not_judged(judge: Judge) -> None:
    assert judge(rack() | {"software.channel": "2031.01"}).rules == {"channel-known"}


def test_cni_without_network_policies_needs_an_explicit_setting(judge: Judge) -> None:
    finding = judge(rack(kubernetes={"cni": "flannel"})).only("kubernetes-cni")
    assert "every pod could reach every other" in finding.message
    assert judge(rack(kubernetes={"cni": "flannel", "network_policies": False})).rules == set()


def test_only_teams_of_the_site_may_use_the_network_of_their_node(judge: Judge) -> None:
    teams = [{"name": "research", "gpus": 8}]
    allowed = rack(teams=teams, kubernetes={"host_network": ["research"]})
    assert judge(allowed).rules == set()
    finding = judge(rack(teams=teams, kubernetes={"host_network": ["reserch"]})).only(
        "kubernetes-host-network"
    )
    assert finding.message == "'reserch' is not a team of site 'dc1'" and "research" in finding.remedy


@pytest.mark.parametrize(
    ("backup", "field"),
    [
        ({"every": "599 s"}, "every"),
        ({"every": "169 h"}, "every"),
        ({"folder": "/var/lib/etcd/backup"}, "folder"),
        ({"folder": "/run/etcd"}, "folder"),
    ],
)
def test_invalid_backup_settings_are_refused(judge: Judge, backup: dict[str, str], field: str) -> None:
    finding = judge(rack(kubernetes={"backup": backup})).only("kubernetes-backup")
    assert finding.field == f"onprem[0].kubernetes.backup.{field}"


@pytest.mark.parametrize("every", ["10 min", "7 d"])
def test_shortest_and_longest_backup_intervals_pass(judge: Judge, every: str) -> None:
    assert judge(rack(kubernetes={"backup": {"every": every}})).rules == set()
