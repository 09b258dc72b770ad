"""Ordered capacity: groups that can be drawn from, and numbers that fit them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.unit.checks.fleets import FLEET, Judge

FIELD = "cloud.0.ordered_capacity"
WHERE = "cloud[0].ordered_capacity[0]"
GROUPS = "cloud.0.node_groups"


def order(**changes: Any) -> dict[str, Any]:
    return {"name": "pretrain", "nodes": 2, "groups": ["held", "sweep"], **changes}


def test_order_of_existing_groups_passes(judge: Judge) -> None:
    assert judge({FIELD: [order()]}).rules == set()
    assert judge({FIELD: [order(groups=["train"])]}).rules == set()


def test_unknown_group_is_refused_with_the_nearest(judge: Judge) -> None:
    finding = judge({FIELD: [order(groups=["hold", "sweep"])]}).only("ordered-groups")
    assert finding.field == f"{WHERE}.groups[0]"
    assert finding.remedy.startswith("did you mean 'held'?")


def test_group_is_in_one_order_once(judge: Judge) -> None:
    other = order(name="other", groups=["sweep"])
    finding = judge({FIELD: [order(), other]}).only("ordered-groups")
    assert finding.field == "cloud[0].ordered_capacity[1].groups[0]"
    assert "'sweep' is in order 'pretrain' already" in finding.message
    assert judge({FIELD: [order(groups=["held", "sweep", "held"])]}).rules == {"ordered-groups"}


def test_name_of_an_order_is_unique(judge: Judge) -> None:
    reported = judge({FIELD: [order(groups=["held"], nodes=1), order(groups=["sweep"])]})
    assert reported.only("ordered-groups").field == "cloud[0].ordered_capacity[1].name"


@pytest.mark.parametrize(
    ("field", "value", "remedy"),
    [
        ("min", 1, "remove `min`"),
        ("desired", 1, "remove `desired`"),
        ("on_shortage", ["on-demand"], "remove 'on-demand' here"),
    ],
)
def test_ordered_group_has_no_size_of_its_own(judge: Judge, field: str, value: Any, remedy: str) -> None:
    changed = {"max": 4, field: value}
    finding = judge({FIELD: [order()], f"{GROUPS}.3.capacity.spot": changed}).only("ordered-sizes")
    assert finding.field == f"cloud[0].node_groups[3].capacity.spot.{field}"
    assert finding.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"nodes": 0, "at_least": 0}, "nodes", "is for 0 nodes"),
        ({"at_least": 3}, "at_least", "at_least 3 is more than the 2 nodes"),
        ({"nodes": 6}, "nodes", "have at most 5 nodes, not 6"),
    ],
)
def test_numbers_fit_the_groups(judge: Judge, changes: dict[str, Any], field: str, message: str) -> None:
    finding = judge({FIELD: [order(**changes)]}).only("ordered-nodes")
    assert finding.field == f"{WHERE}.{field}"
    assert message in finding.message


@pytest.mark.parametrize("changes", [{"nodes": 1}, {"nodes": 5, "at_least": 5}])
def test_order_of_one_node_and_of_all_that_its_groups_have_pass(
    judge: Judge, changes: dict[str, Any]
) -> None:
    assert judge({FIELD: [order(**changes)]}).rules == set()


def test_nodes_of_an_efa_order_come_from_one_zone(judge: Judge) -> None:
    efa = {f"{GROUPS}.3.network": "efa"}
    (finding,) = judge({FIELD: [order(nodes=1)], **efa}).of("ordered-zones")
    assert finding.field == "cloud[0].node_groups[3].name"
    assert "has 2 (us-east-1a, us-east-1b)" in finding.message
    fits = {f"{GROUPS}.3.zones": ["us-east-1a"]}
    assert judge({FIELD: [order(nodes=4)], **efa, **fits}).rules == set()
    apart = judge({FIELD: [order(nodes=5)], **efa, **fits}).only("ordered-nodes")
    assert "at most 4 nodes in one zone, not 5" in apart.message


def test_groups_of_an_order_share_gpus_alike(judge: Judge) -> None:
    slices = {"time_slicing": {"replicas": 4}}
    shares = {FIELD: [order()], "cloud.0.kubernetes.teams.0.gpu_shares": 8}
    both = {f"{GROUPS}.2.gpu_sharing": slices, f"{GROUPS}.3.gpu_sharing": slices}
    assert "ordered-sharing" not in judge(shares | both).rules
    finding = judge(shares | {f"{GROUPS}.3.gpu_sharing": slices}).only("ordered-sharing")
    assert finding.field == "cloud[0].node_groups[3].gpu_sharing"
    assert "'held' and 'sweep' of order 'pretrain' do not have the same `gpu_sharing`" in finding.message


def test_order_of_a_site_without_groups_has_none_to_suggest(judge: Judge) -> None:
    order = {"name": "first", "nodes": 1, "groups": ["x"]}
    reported = judge({"cloud.0.node_groups": [], "cloud.0.ordered_capacity": [order]})
    assert "write one of: none is declared" in [finding.remedy for finding in reported.findings]


WEST: dict[str, Any] = {
    "site": "usw2",
    "region": "us-west-2",
    "zones": ["us-west-2a"],
    "network": {"cidr": "10.50.0.0/16"},
    "scheduler": "kubernetes",
    "kubernetes": {"version": "1.35", "private_cidrs": ["10.60.0.0/24"]},
    "node_groups": [
        {"name": "sweep", "instance_types": ["p4d.24xlarge"], "capacity": {"spot": {"min": 0, "max": 4}}}
    ],
}


def both(west: dict[str, Any]) -> dict[str, Any]:
    return {"cloud": [FLEET["cloud"][0], west]}


def test_order_draws_from_groups_of_another_site(judge: Judge) -> None:
    reported = judge({**both(WEST), FIELD: [order(nodes=4, groups=["sweep", "usw2/sweep"])]})
    assert not [finding for finding in reported.findings if finding.rule.startswith("ordered")]
    short = judge({**both(WEST), FIELD: [order(nodes=5, groups=["sweep", "usw2/sweep"])]})
    (finding,) = short.of("ordered-nodes")
    assert "at most 4 nodes in one site, not 5" in finding.message


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        ("usw3/sweep", "there is no cloud site 'usw3'", "did you mean 'usw2'?"),
        ("usw2/sweeps", "site 'usw2' has no node group 'sweeps'", "did you mean 'sweep'?"),
        ("use1/sweep", "node group 'use1/sweep' is in order 'pretrain' already", "remove it here, or there"),
    ],
)
def test_group_of_another_site_exists_and_is_named_once(
    judge: Judge, name: str, message: str, remedy: str
) -> None:
    finding = judge({**both(WEST), FIELD: [order(groups=["sweep", name])]}).of("ordered-groups")[0]
    assert finding.field == f"{WHERE}.groups[1]"
    assert message in finding.message and finding.remedy.startswith(remedy)


def test_group_is_in_one_order_over_all_sites(judge: Judge) -> None:
    west = {**WEST, "ordered_capacity": [order(name="other", groups=["sweep"])]}
    (finding,) = judge({**both(west), FIELD: [order(groups=["sweep", "usw2/sweep"])]}).of("ordered-groups")
    assert finding.field == "cloud[1].ordered_capacity[0].groups[0]"


def test_group_of_another_site_has_no_size_and_no_autoscaler(judge: Judge) -> None:
    west = copy.deepcopy(WEST)
    west["node_groups"][0]["capacity"]["spot"]["desired"] = 1
    west["kubernetes"] |= {"autoscaler": {}, "system_nodes": {"min": 2, "max": 2}}
    reported = judge({**both(west), FIELD: [order(groups=["sweep", "usw2/sweep"])]})
    (finding,) = reported.of("ordered-sizes")
    assert finding.field == "cloud[1].node_groups[0].capacity.spot.desired"
    assert [each.field for each in reported.of("autoscaler-of-nothing")] == ["cloud[1].kubernetes.autoscaler"]


@pytest.mark.parametrize(
    ("slurm", "message"),
    [
        ({}, "site 'usw2' has the scheduler slurm, and site 'use1' of order 'pretrain' has kubernetes"),
        ({"cloud.0.scheduler": "slurm"}, "Slurm launches the nodes of site 'usw2'"),
    ],
)
def test_another_site_has_the_same_scheduler_and_groups_with_a_size(
    judge: Judge, slurm: dict[str, Any], message: str
) -> None:
    servers = {"image": "ami-0123456789abcdef0", "ssh": {"keys": ["ssh-ed25519 AAAA"]}, "teams": []}
    west = {**WEST, "scheduler": "slurm", "slurm": {"servers": servers}, "kubernetes": None}
    reported = judge({**both(west), FIELD: [order(groups=["sweep", "usw2/sweep"])], **slurm})
    assert message in reported.of("ordered-sites")[0].message
    own = {**west, "ordered_capacity": [order(groups=["sweep"])]}
    assert judge(both(own)).of("ordered-sites") == []
