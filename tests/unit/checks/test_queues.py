"""Queues of a site: teams, devices, and limits of Kueue."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import GONE, Judge

KUBERNETES = "cloud.0.kubernetes"
FIELD = f"{KUBERNETES}.queues"
GROUPS = "cloud.0.node_groups"
CPU = {"name": "cpu", "instance_types": ["m7i.xlarge"], "capacity": {"on_demand": {"max": 2}}}


def gpu_group(name: str) -> dict[str, Any]:
    return {"name": name, "instance_types": ["g6.xlarge"], "capacity": {"on_demand": {"min": 0, "max": 1}}}


def test_defaults_pass(judge: Judge) -> None:
    assert judge({FIELD: {}}).rules == set()
    assert judge({FIELD: {"jobset": True, "leader_worker_set": True}}).rules == set()
    assert judge({FIELD: {"kind": "none"}}).rules == set()


def test_queues_without_teams_or_devices_are_a_warning(judge: Judge) -> None:
    (finding,) = judge({FIELD: {}, f"{KUBERNETES}.teams": [], GROUPS: [gpu_group("a")]}).of(
        "queues-of-nothing"
    )
    assert (finding.severity, finding.value) == ("warning", "use1")
    assert "no team" in finding.message
    (finding,) = judge({FIELD: {}, GROUPS: [CPU]}).of("queues-of-nothing")
    assert "no node with devices" in finding.message
    assert "queues-of-nothing" not in judge({FIELD: {"kind": "none"}, GROUPS: [CPU]}).rules
    slurm = judge({FIELD: {}, GROUPS: [CPU], "cloud.0.scheduler": "slurm"}).rules
    assert "one-scheduler" in slurm and "queues-of-nothing" not in slurm


@pytest.mark.parametrize("missing", [{}, {KUBERNETES: GONE, f"{GROUPS}.0.team": GONE}])
def test_site_without_queues_passes(judge: Judge, missing: dict[str, Any]) -> None:
    assert judge(missing).rules == set()


def test_queue_holds_64_flavors_and_groups_of_an_order_are_one(judge: Judge) -> None:
    groups = [gpu_group(f"g{number}") for number in range(65)]
    (finding,) = judge({FIELD: {}, GROUPS: groups}).of("queues-flavors")
    assert finding.value == 65 and "65 node groups and orders with GPUs" in finding.message
    assert judge({FIELD: {}, GROUPS: groups[:64]}).of("queues-flavors") == []
    order = {"name": "drawn", "nodes": 1, "groups": ["g0", "g1"]}
    assert judge({FIELD: {}, GROUPS: groups, "cloud.0.ordered_capacity": [order]}).of("queues-flavors") == []


@pytest.mark.parametrize("kind", ["jobset", "leader_worker_set"])
def test_controllers_of_jobs_need_queues(judge: Judge, kind: str) -> None:
    finding = judge({FIELD: {"kind": "none", kind: True}}).only("queues-none")
    assert finding.field == f"cloud[0].kubernetes.queues.{kind}"


def test_private_site_cannot_pull_the_controllers(judge: Judge) -> None:
    def pulled(queues: dict[str, Any]) -> list[str]:
        found = judge({FIELD: queues, "cloud.0.network.nat": "none"}).of("registry-unreachable")
        return [each.message.partition("pull ")[2] for each in found if "registry.k8s.io" in each.message]

    assert pulled({"kind": "none"}) == []
    assert pulled({}) == ["Kueue from registry.k8s.io"]
    assert pulled({"jobset": True, "leader_worker_set": True}) == [
        "Kueue from registry.k8s.io",
        "JobSet from registry.k8s.io",
        "LeaderWorkerSet from registry.k8s.io",
    ]
