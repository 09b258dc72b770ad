"""Hosts that leave a site: the order of the steps, and hosts that may not leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rack.lab import fleet_text
from tests.unit.ansible.recorded import Answer, Recorder, TaskCall
from tests.unit.ansible.test_kubernetes_files import fleet

ANSWERS = (
    Answer("drives_wiped", {"drives": [], "kept": []}),
    Answer("measure", {"measurements": {"product": {"stdout": "DGX"}, "serial": {"stdout": "1"}}}),
    Answer("secrets_removed", {"removed": ["munge key: /etc/munge/munge.key"]}),
    Answer("kubernetes_host_removed", {"did": ["removed the node"]}),
)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return Recorder(tmp_path_factory.mktemp("decommission"), fleet("1.35"))


def steps(notes: list[TaskCall]) -> list[tuple[str, str]]:
    """Modules with the hosts that they ran on, without facts."""
    return [(note.module, note.host) for note in notes if note.module not in ("system", "measure", "files")]


def test_node_leaves_its_cluster_before_its_secrets_are_removed(recorder: Recorder) -> None:
    words = {"operation_confirm": "dgx01", "limit": "dgx01"}
    notes, facts, reported = recorder.play("decommission.yml", *ANSWERS, **words)
    assert steps(notes) == [
        ("kubernetes_drain", "ctl01"),
        ("units", "dgx01"),
        ("drives_wiped", "dgx01"),
        ("kubernetes_host_removed", "ctl01"),
        ("units", "dgx01"),
        ("secrets_removed", "dgx01"),
    ], reported[-3000:]
    (removed,) = [note for note in notes if note.module == "secrets_removed"]
    assert not removed.arguments["member"]
    (record,) = [
        item
        for note in notes
        if note.module == "files"
        for item in note.arguments["files"]
        if "content" in item
    ]
    assert "munge key: /etc/munge/munge.key" in str(record["content"])
    assert "removed the node" in str(record["content"])
    assert facts["dgx01"] >= {"operation_done"}


def test_member_of_a_control_plane_leaves_alone_and_with_the_explicit_word_only(recorder: Recorder) -> None:
    words = {"operation_confirm": "ctl01", "limit": "ctl01"}
    notes, _, reported = recorder.play("decommission.yml", *ANSWERS, **words)
    assert steps(notes) == [] and "with the option member=true" in reported
    two = {"operation_confirm": "ctl01,ctl02", "limit": "ctl01,ctl02", "operation_member": True}
    notes, _, reported = recorder.play("decommission.yml", *ANSWERS, **two)
    assert steps(notes) == [] and "as the only host of a run" in reported
    notes, facts, reported = recorder.play("decommission.yml", *ANSWERS, operation_member=True, **words)
    # Another member removes it from etcd, while its own still runs.
    assert steps(notes) == [
        ("kubernetes_host_removed", "ctl02"),
        ("units", "ctl01"),
        ("secrets_removed", "ctl01"),
    ], reported[-3000:]
    left, _, removed = [note for note in notes if note.module not in ("system", "measure")]
    assert left.arguments["name"] == "ctl01" and left.arguments["address"]
    assert removed.arguments["member"]
    assert facts["ctl01"] >= {"operation_done"}
    # The others would have no quorum: nothing is stopped.
    lost = Answer("kubernetes_host_removed", {"failed": True, "msg": "it would have no quorum"})
    notes, facts, _ = recorder.play("decommission.yml", *ANSWERS, lost, operation_member=True, **words)
    assert steps(notes) == [("kubernetes_host_removed", "ctl02")]
    assert "operation_done" not in facts.get("ctl01", set())


def test_only_member_and_controllers_of_slurm_cannot_leave(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    words = {"operation_confirm": "ctl01", "limit": "ctl01", "operation_member": True}
    single = Recorder(tmp_path / "one", fleet("1.35"))
    only = {"kubernetes_control_plane_members": [{"name": "ctl01", "address": "10.90.0.11"}]}
    notes, _, reported = single.play("decommission.yml", *ANSWERS, **words, **only)
    assert steps(notes) == [] and "with 1 members" in " ".join(reported.split())
    (tmp_path / "two").mkdir()
    slurm = Recorder(tmp_path / "two", fleet_text(controllers=2))
    notes, _, reported = slurm.play("decommission.yml", *ANSWERS, **words)
    assert steps(notes) == [] and "is a controller of Slurm" in reported
