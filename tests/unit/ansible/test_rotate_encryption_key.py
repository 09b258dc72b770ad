"""The order of a rotation of the encryption key, by the playbook itself; and what configure refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.ansible.recorded import Answer, Recorder, TaskCall
from tests.unit.ansible.rendering import ANSIBLE
from tests.unit.ansible.test_kubernetes_files import fleet

MEMBERS = ["ctl01", "ctl02", "ctl03"]
READY = [("ready", name) for name in MEMBERS]
DONE = [
    *(("added", name) for name in MEMBERS),
    *(("first", name) for name in MEMBERS),
    ("rewritten", "ctl01"),
    *(("only", name) for name in MEMBERS),
]


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return Recorder(tmp_path_factory.mktemp("rotation"), fleet("1.35"))


def steps(notes: list[TaskCall]) -> list[tuple[str, str]]:
    return [(note.arguments["state"], note.host) for note in notes if note.module == "kubernetes_encryption"]


def test_each_step_ends_on_all_members_before_the_next_one_begins(recorder: Recorder) -> None:
    notes, facts, reported = recorder.play("rotate_encryption_key.yml")
    done = steps(notes)
    assert sorted(done[:3]) == READY and done[3:] == DONE, reported[-2000:]
    assert {host for host, true in facts.items() if "operation_done" in true} == set(MEMBERS)
    assert {note.arguments["server"] for note in notes if note.module == "kubernetes_encryption"} == {
        f"https://10.90.0.1{number}:6443" for number in (1, 2, 3)
    }


def test_step_that_fails_stops_the_rotation_with_its_reason(recorder: Recorder) -> None:
    broken = Answer(
        "kubernetes_encryption", {"problem": "not ready"}, host="ctl02", arguments={"state": "first"}
    )
    notes, facts, reported = recorder.play("rotate_encryption_key.yml", broken)
    assert steps(notes)[3:] == DONE[:5]
    assert "ctl02: not ready" in reported
    assert not any("operation_done" in true for true in facts.values())


def test_rotation_needs_all_members(recorder: Recorder) -> None:
    notes, _, reported = recorder.play("rotate_encryption_key.yml", limit="ctl01")
    assert steps(notes) == [] and "has the members ctl01, ctl02, ctl03" in reported


def test_configure_with_another_key_changes_nothing_on_the_control_plane(
    recorder: Recorder, tmp_path: Path
) -> None:
    other = Answer("kubernetes_encryption", {"problem": "encrypted with key sha256:1"}, host="ctl02")
    # ctl03 was rebuilt: it has no key to compare, and asks a member that runs.
    known = Answer(
        "kubeadm", {"member": False, "running": ["ctl02"]}, host="ctl03", arguments={"state": "known"}
    )
    member = Answer("kubeadm", {"member": True, "running": []}, arguments={"state": "known"})
    same = Answer("kubeadm_release", {"installed": "1.35.4", "member": True, "install": False})
    key = {"kubernetes_control_plane_encryption_key": "A" * 43 + "="}
    play = {"hosts": "rack_kubernetes_control_plane", "gather_facts": False}
    play["roles"] = ["gpufleet.rack.kubernetes_control_plane"]
    facts = {"import_playbook": str(ANSIBLE / "playbooks" / "facts.yml")}
    (tmp_path / "play.yml").write_text(json.dumps([facts, play]))
    notes, _, reported = recorder.play(
        str(tmp_path / "play.yml"), member, known, same, other, limit="ctl02:ctl03", **key
    )
    assert "ctl02: encrypted with key sha256:1" in reported, reported[-2000:]
    assert steps(notes).count(("same", "ctl02")) == 2
    assert not [note for note in notes if note.module == "kubeadm_invitation"]
    written = [
        item["path"]
        for note in notes
        if note.module == "files" and note.host == "ctl02"
        for item in note.arguments["files"]
    ]
    assert not [path for path in written if "encryption" in str(path)]
