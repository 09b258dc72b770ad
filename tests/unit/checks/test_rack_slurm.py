"""Slurm of rack sites."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import GONE, Judge

SLURM = "onprem.0.slurm"


def test_valid_partitions_and_qos_pass(judge: Judge) -> None:
    reported = judge(
        {
            "onprem.0.teams": [{"name": "research", "gpus": 8}],
            SLURM: {
                "partitions": [
                    {"name": "long", "nodes": "dgx[001-004]", "max_time": "7 d", "teams": ["research"]},
                    {"name": "short", "default": True, "max_time": "4 h"},
                ],
                "qos": [{"name": "urgent", "priority": 5000, "preempts": ["low", "normal"]}],
            },
        }
    )
    assert reported.rules == set()


@pytest.mark.parametrize(
    ("partitions", "field", "says"),
    [
        ([{"name": "a", "nodes": "gpu001"}], "[0].nodes", "not GPU nodes of site 'dc1' (gpu001)"),
        ([{"name": "a", "nodes": "ctl01"}], "[0].nodes", "not GPU nodes"),
        ([{"name": "a"}, {"name": "a"}], "[1].name", "partition a is declared twice"),
        (
            [{"name": "a", "default": True}, {"name": "b", "default": True}],
            "[1].default",
            "second default besides 'a'",
        ),
        ([{"name": "a", "teams": ["nobody"]}], "[0].teams[0]", "team 'nobody'"),
    ],
)
def test_partition_that_slurm_refuses_is_found(
    judge: Judge, partitions: list[dict[str, Any]], field: str, says: str
) -> None:
    finding = judge({SLURM: {"partitions": partitions}}).only("slurm-partitions")
    assert finding.field == f"onprem[0].slurm.partitions{field}"
    assert says in finding.message
    assert finding.remedy


@pytest.mark.parametrize(
    ("teams", "remedy"),
    [
        ([{"name": "research", "gpus": 8}], "use one of research"),
        ([], "declare it under `teams` of the site"),
    ],
)
def test_partition_of_an_unknown_team_names_those_of_the_site(
    judge: Judge, teams: list[dict[str, Any]], remedy: str
) -> None:
    partitions = [{"name": "a", "teams": ["nobody"]}]
    reported = judge({"onprem.0.teams": teams, SLURM: {"partitions": partitions}})
    assert reported.only("slurm-partitions").remedy == remedy


@pytest.mark.parametrize(
    ("qos", "says"),
    [
        ([{"name": "a", "preempts": ["b"]}, {"name": "b", "preempts": ["a"]}], "leads back to itself"),
        ([{"name": "a", "preempts": ["a"]}], "leads back to itself"),
        ([{"name": "a", "preempts": ["urgnt"]}], "which is not a QOS"),
        ([{"name": "a"}, {"name": "a"}], "declared twice"),
    ],
)
def test_qos_cannot_preempt_itself_or_an_unknown_one(
    judge: Judge, qos: list[dict[str, Any]], says: str
) -> None:
    assert says in judge({SLURM: {"qos": qos}}).of("slurm-qos")[0].message


def test_disabled_preemption_is_reported(judge: Judge) -> None:
    reported = judge({SLURM: {"preemption": "none", "qos": [{"name": "a", "preempts": ["low"]}]}})
    assert reported.only("slurm-qos", "warning").field == "onprem[0].slurm.qos[0].preempts"
    assert judge({SLURM: {"preemption": "none", "qos": [{"name": "a"}]}}).rules == set()


def test_settings_of_slurm_on_a_kubernetes_site_are_refused(judge: Judge) -> None:
    kubernetes = {"onprem.0.scheduler": "kubernetes", "onprem.0.controllers": "ctl01"}
    reported = judge(kubernetes | {SLURM: {"preemption": "cancel"}})
    assert reported.only("slurm-unused").field == "onprem[0].slurm"
    assert "slurm-unused" not in judge(kubernetes).rules


def test_several_controllers_need_a_shared_file_system(judge: Judge) -> None:
    found = judge({"onprem.0.storage": GONE}).only("slurm-state")

    assert "no shared file system" in found.message
    kubernetes = {"onprem.0.storage": GONE, "onprem.0.scheduler": "kubernetes"}
    assert judge(kubernetes).of("slurm-state") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"onprem.0.controllers": "ctl01", "onprem.0.storage": GONE},
        {"onprem.0.storage": GONE, SLURM: {"state": "nas01:/export/slurm"}},
        {"onprem.0.controllers": "ctl01", "onprem.0.storage.0.source": "ctl01:/export"},
        {},
    ],
)
def test_one_controller_or_a_shared_file_system_passes(judge: Judge, changes: dict[str, Any]) -> None:
    assert judge(changes).rules == set()


def test_site_without_controllers_needs_no_shared_file_system(judge: Judge) -> None:
    assert judge({"onprem.0.controllers": GONE, "onprem.0.storage": GONE}).rules == {"slurm-controllers"}


@pytest.mark.parametrize("state", ["/export/slurm", "nas01:export", "ctl01:/export/slurm"])
def test_slurm_state_is_on_an_export_of_another_host(judge: Judge, state: str) -> None:
    judge({SLURM: {"state": state}}).only("slurm-state")
