"""Interruptions: durations that fit the time that AWS gives."""

from __future__ import annotations

import pytest

from tests.unit.checks.fleets import Judge

FIELD = "cloud.0.interruptions"


def test_defaults_pass(judge: Judge) -> None:
    assert judge({FIELD: {}}).rules == set()
    assert judge({FIELD: {"checkpoint": "105 s"}}).rules == set()


@pytest.mark.parametrize("written", ["106 s", "10 min", "2 h"])
def test_checkpoint_longer_than_a_spot_notice_is_refused(judge: Judge, written: str) -> None:
    finding = judge({FIELD: {"checkpoint": written, "before_maintenance": "3 h"}}).only("checkpoint-in-time")
    assert finding.field == "cloud[0].interruptions.checkpoint"
    assert finding.severity == "error"
    assert "write '105 s' or less" in finding.remedy


def test_checkpoint_of_a_site_without_spot_may_take_longer(judge: Judge) -> None:
    no_spot = {"on_demand": {"min": 0, "max": 1}}
    changes = {"cloud.0.node_groups.3.capacity": no_spot}
    assert judge({FIELD: {"checkpoint": "585 s"}, **changes}).rules == set()
    finding = judge({FIELD: {"checkpoint": "586 s"}, **changes}).only("checkpoint-in-time")
    assert "586 s is longer than a node of a Capacity Block has" in finding.message
    changes["cloud.0.node_groups.1.capacity"] = no_spot
    assert judge({FIELD: {"checkpoint": "50 min"}, **changes}).of("checkpoint-in-time") == []


@pytest.mark.parametrize(("written", "remedy"), [("8 d", "write '7 d' or less"), ("1 min", "such as '1 h'")])
def test_lead_of_a_maintenance_is_bounded(judge: Judge, written: str, remedy: str) -> None:
    finding = judge({FIELD: {"before_maintenance": written}}).only("maintenance-lead")
    assert remedy in finding.remedy


@pytest.mark.parametrize(("written", "refused"), [("7 d", False), ("105 s", False), ("104 s", True)])
def test_lead_of_a_maintenance_may_be_what_a_checkpoint_needs(
    judge: Judge, written: str, refused: bool
) -> None:
    reported = judge({FIELD: {"checkpoint": "90 s", "before_maintenance": written}})
    assert ("maintenance-lead" in reported.rules) is refused


def test_site_without_nodes_is_a_warning(judge: Judge) -> None:
    reported = judge({FIELD: {}, "cloud.0.node_groups": []})
    assert reported.of("interruptions-of-nothing")[0].severity == "warning"
    assert judge({"cloud.0.node_groups": []}).of("interruptions-of-nothing") == []
