"""The order of an upgrade of Kubernetes, by the playbook itself."""

from __future__ import annotations

import pytest

from tests.unit.ansible.recorded import Answer, Recorder, TaskCall
from tests.unit.ansible.test_kubernetes_files import fleet

MEMBERS = ["ctl01", "ctl02", "ctl03"]
BEHIND = (
    Answer("files", {"changed_files": []}),
    Answer("kubeadm", {"member": True}),
    Answer("kubeadm_release", {"installed": "1.34.4", "member": True, "install": False}),
)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return Recorder(tmp_path_factory.mktemp("upgrade"), fleet("1.35"))


def steps(notes: list[TaskCall]) -> list[str]:
    """Steps of the upgrade and their hosts."""
    found = []
    for note in notes:
        if note.module == "kubeadm" and note.arguments["state"] != "known":
            found.append(f"{note.arguments['state']} {note.host}")
        elif note.module == "kubernetes_nodes":
            found += [
                f"{word} {name}" for word in ("drain", "ready") for name in note.arguments.get(word, [])
            ]
        elif note.module == "units":
            found += [f"{unit['name'].partition('.')[0]} {note.host}" for unit in note.arguments["units"]]
        elif note.module == "packages":
            found.append(f"{note.arguments['names'][0].partition('=')[0]} {note.host}")
    return found


def of_member(name: str, word: str) -> list[str]:
    start = [f"gpufleet-etcd-backup {name}", f"kubeadm {name}", f"{word} {name}", f"drain {name}"]
    services = [f"{unit} {name}" for unit in ("systemd-sysctl", "containerd", "kubelet")]
    return [*start, f"kubelet {name}", *services, f"ready {name}"]


def test_members_are_upgraded_in_turn_after_a_snapshot_then_nodes_in_batches(recorder: Recorder) -> None:
    notes, facts, reported = recorder.play("upgrade_kubernetes.yml", *BEHIND, operation_batch="1")
    done = steps(notes)
    members = [
        *of_member("ctl01", "applied"),
        *of_member("ctl02", "upgraded"),
        *of_member("ctl03", "upgraded"),
    ]
    assert done[: len(members)] == members, reported[-2000:]
    nodes = done[len(members) :]
    names = sorted({line.split()[1] for line in nodes})
    assert len(names) >= 2
    assert [line for line in nodes if "ready" in line or "drain" in line] == [
        f"{word} {name}" for name in names for word in ("drain", "ready")
    ]
    assert {host for host, true in facts.items() if "operation_done" in true} == {*MEMBERS, *names}
    asked = [
        note.arguments["led"]
        for note in notes
        if note.module == "kubeadm_release" and note.arguments.get("led")
    ]
    assert asked == [["ctl01"], ["ctl01"], *[MEMBERS] * len(names)]
    assert {note.host for note in notes if note.arguments.get("led")} == {"ctl01"}


def test_failed_member_stops_the_upgrade_and_a_resumed_run_continues_there(recorder: Recorder) -> None:
    broken = Answer(
        "kubeadm", {"failed": True, "msg": "broken"}, host="ctl02", arguments={"state": "upgraded"}
    )
    notes, facts, _ = recorder.play("upgrade_kubernetes.yml", *BEHIND, broken)
    assert steps(notes)[-1] == "upgraded ctl02"
    assert {host for host, true in facts.items() if "operation_done" in true} == {"ctl01"}
    there = Answer("kubeadm_release", {"installed": "1.35.4"}, host="ctl01")
    notes, facts, _ = recorder.play("upgrade_kubernetes.yml", *BEHIND, there, check=True)
    assert "applied ctl01" not in steps(notes)
    assert not any("operation_done" in true for true in facts.values())
    assert all(note.check for note in notes)
    # Nothing was upgraded, so nothing is verified.
    assert not any(note.arguments.get("led") for note in notes)


def test_nodes_are_refused_while_the_control_plane_is_older(recorder: Recorder) -> None:
    refusal = {"failed": True, "msg": "The API servers of ctl01 (1.34.4) do not run Kubernetes 1.35.4 yet"}
    late = Answer("kubeadm_release", refusal, arguments={"led": MEMBERS})
    for check in (False, True):
        notes, facts, reported = recorder.play(
            "upgrade_kubernetes.yml", *BEHIND, late, limit="dgx01", check=check, operation_targets=["dgx01"]
        )
        assert steps(notes) == []
        assert "do not run Kubernetes 1.35.4 yet" in reported
        assert not any("operation_done" in true for true in facts.values())


def test_unsupported_release_is_refused_before_any_change(recorder: Recorder) -> None:
    refusal = Answer("kubeadm_release", {"failed": True, "msg": "skips 1 minor version"}, host="dgx02")
    notes, _, reported = recorder.play("upgrade_kubernetes.yml", *BEHIND, refusal)
    assert steps(notes) == [] and "skips 1 minor version" in reported
    assert not any(note.module in ("repositories", "packages") for note in notes)
