"""Names and teams."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.unit.checks.fleets import FLEET, GONE, Judge
from tests.unit.checks.test_networks import SLURM

GROUPS = "cloud.0.node_groups"


def test_duplicate_node_group_name_is_refused(judge: Judge) -> None:
    finding = judge({f"{GROUPS}.3.name": "train"}).only("name-repeated")
    assert finding.field == "cloud[0].node_groups[3].name"
    assert finding.value == "train"


def test_storage_with_the_name_of_a_node_group_is_refused(judge: Judge) -> None:
    judge({"cloud.0.storage.1.name": "train"}).only("name-repeated")


def test_cloud_site_with_the_name_of_a_rack_site_is_refused(judge: Judge) -> None:
    finding = judge({"onprem.0.site": "use1"}).only("name-repeated")
    assert finding.field == "onprem[0].site"


@pytest.mark.parametrize(("name", "found"), [("racks", ["onprem[0].storage[0].name"]), ("rack", [])])
def test_storage_with_the_name_of_the_racks_is_refused(judge: Judge, name: str, found: list[str]) -> None:
    assert judge({"onprem.0.storage.0.name": name}).fields("name-repeated") == found


def test_duplicate_team_name_is_refused(judge: Judge) -> None:
    judge({"cloud.0.kubernetes.teams.+": {"name": "research", "gpus": 1}}).only("name-repeated")


@pytest.mark.parametrize("name", ["network", "control-plane", "system"])
def test_group_with_the_name_of_a_site_component_is_refused(judge: Judge, name: str) -> None:
    judge({f"{GROUPS}.3.name": name}).only("name-repeated")


def test_group_with_the_name_of_another_on_demand_part_is_refused(judge: Judge) -> None:
    changes: dict[str, Any] = {f"{GROUPS}.0.name": "sweep-fallback"}
    assert judge(changes).rules == set()
    shortage = {f"{GROUPS}.3.capacity.spot.on_shortage": ["on-demand"]}
    judge(changes | shortage).only("name-repeated")


def test_names_too_long_for_eks_are_refused_with_the_excess(judge: Judge) -> None:
    room = 63 - len("atlas-test-use1-") - 8
    assert judge({f"{GROUPS}.0.name": "t" * room}).rules == set()
    finding = judge({f"{GROUPS}.0.name": "t" * (room + 3)}).only("name-too-long")
    assert finding.field == "cloud[0].node_groups[0].name"
    assert "by 3 characters" in finding.remedy


def test_spot_group_with_an_on_demand_part_has_a_shorter_limit(judge: Judge) -> None:
    room = 63 - len("atlas-test-use1-") - 8
    changes: dict[str, Any] = {f"{GROUPS}.3.name": "s" * room}
    assert judge(changes).rules == set()
    judge(changes | {f"{GROUPS}.3.capacity.spot.on_shortage": ["on-demand"]}).only("name-too-long")


def test_site_with_role_names_too_long_for_iam_is_refused(judge: Judge) -> None:
    finding = judge({"fleet": "a" * 50}).only("name-too-long")
    assert finding.field == "cloud[0].site"
    assert "IAM" in finding.message
    excess = int(finding.remedy.split()[-2])
    shorter = {"fleet": "a" * (50 - excess), f"{GROUPS}": [], "cloud.0.kubernetes.teams": []}
    assert judge(shorter).of("name-too-long") == []


@pytest.mark.parametrize("name", ["kube-system", "default", "kube-team", "kueue-system", "nvsentinel"])
def test_team_with_the_name_of_a_cluster_namespace_is_refused(judge: Judge, name: str) -> None:
    finding = judge({"cloud.0.kubernetes.teams.+": {"name": name, "gpus": 1}}).only("team-name")
    assert finding.field == "cloud[0].kubernetes.teams[1].name"


@pytest.mark.parametrize("name", ["kube-team", "network-operator", "kueue-system"])
def test_team_with_the_name_of_a_namespace_of_a_rack_is_refused(judge: Judge, name: str) -> None:
    teams = {"onprem.0.teams": [{"name": "research", "gpus": 8}, {"name": name, "gpus": 8}]}
    kubernetes = {"onprem.0.scheduler": "kubernetes", "onprem.0.controllers": "ctl01"}
    assert judge(teams | kubernetes).only("team-name").field == "onprem[0].teams[1].name"
    assert judge(teams).rules == set()


def test_site_without_kubernetes_has_no_team(judge: Judge) -> None:
    assert judge({"cloud.0.kubernetes": GONE}).of("team-name") == []
    assert judge(SLURM).rules == {"slurm-cloud-unconnected"}
    unused = {"cloud.0.scheduler": "slurm", "cloud.0.kubernetes.teams.0.name": "kube-team"}
    assert judge(unused).fields("team-name") == ["cloud[0].kubernetes.teams[0].name"]


def test_group_of_an_unknown_team_is_refused_with_the_nearest(judge: Judge) -> None:
    finding = judge({f"{GROUPS}.0.team": "reserch"}).only("team-known")
    assert "'research'" in finding.remedy


def test_team_in_a_site_without_teams_is_a_warning(judge: Judge) -> None:
    finding = judge({"cloud.0.kubernetes.teams": []}).only("team-known", "warning")
    assert "declare it under `kubernetes.teams`" in finding.remedy


def test_quota_above_the_size_of_the_site_is_a_warning(judge: Judge) -> None:
    most = 8 * (2 + 1 + 1 + 4)
    assert judge({"cloud.0.kubernetes.teams.0.gpus": most}).rules == set()
    finding = judge({"cloud.0.kubernetes.teams.0.gpus": most + 1}).only("team-quota", "warning")
    assert f"has at most {most}" in finding.message


def test_quota_in_a_site_with_an_unknown_type_is_not_judged(judge: Judge) -> None:
    unknown = {f"{GROUPS}.0.instance_types": ["p5.48xlagre"], "cloud.0.kubernetes.teams.0.gpus": 1000}
    assert judge(unknown).rules == {"instance-type-known"}


def test_quota_in_a_site_without_nodes_is_a_warning(judge: Judge) -> None:
    (finding,) = judge({GROUPS: [], "cloud.0.kubernetes.teams.0.gpus": 8}).of("team-quota")
    assert "has at most 0" in finding.message


def test_quota_above_the_size_of_a_rack_site_is_a_warning(judge: Judge) -> None:
    judge({"onprem.0.teams.0.gpus": 65}).only("team-quota", "warning")


def test_same_names_in_two_sites_pass(judge: Judge) -> None:
    site = copy.deepcopy(FLEET["cloud"][0])
    site |= {"site": "use2", "region": "us-east-2", "network": {"cidr": "10.41.0.0/16"}}
    site["zones"] = ["us-east-2a", "us-east-2b"]
    site["node_groups"] = [site["node_groups"][0] | {"zones": ["us-east-2a"]}]
    site["storage"] = []
    assert judge({"cloud.+": site}).rules == set()
