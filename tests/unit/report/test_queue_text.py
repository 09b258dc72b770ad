"""What `plan` prints of the queues of a site."""

from __future__ import annotations

from typing import Any

from gpufleet.report.queue_text import queue_lines
from tests.unit.plan.fleets import group, on_demand, plan_of

TEAMS = [
    {"name": "research", "gpus": 24, "neuron_devices": 16},
    {"name": "serving", "gpus": 8, "priority": "high"},
]
GROUPS = (
    group("pretrain", "p5.48xlarge", on_demand(2, 2), network="efa", zones=["us-east-1a"]),
    group("neuron", "trn1.32xlarge", on_demand(1, 1)),
)


def lines(queues: dict[str, Any] | None, *groups: dict[str, Any], teams: Any = TEAMS) -> list[str]:
    settings: dict[str, Any] = {"private_cidrs": ["10.60.0.0/24"], "teams": teams}
    if queues is not None:
        settings["queues"] = queues
    (found,) = plan_of(*groups, scheduler="kubernetes", kubernetes=settings).cloud
    assert found.kubernetes is not None
    return list(queue_lines(found.kubernetes))


def test_guarantees_topology_and_controllers_are_listed() -> None:
    assert lines({"jobset": True, "leader_worker_set": True}, *GROUPS) == [
        "Kueue v0.19.2 shares out 16 GPUs: research 12, serving 4",
        "Kueue v0.19.2 shares out 16 Neuron devices: research 16, serving 0",
        "jobs on pretrain are placed by EC2's topology",
        "JobSet v0.12.0 is installed",
        "LeaderWorkerSet v0.9.0 is installed",
    ]


def test_site_without_topology_or_teams_says_so() -> None:
    (line,) = lines({"topology": False}, GROUPS[0], teams=[])
    assert line == "Kueue v0.19.2 shares out 16 GPUs: no team"


def test_site_without_queues_has_no_line() -> None:
    assert lines(None, *GROUPS) == lines({"kind": "none"}, *GROUPS) == []
