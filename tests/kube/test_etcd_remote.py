"""etcd restored on all members from the remote target by the playbook: S3, and rsync over ssh."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.kube.members import Kubelet, Member, make_members
from tests.kube.stores import Target, etcd_source, s3_server, ssh_server
from tests.unit.ansible.recorded import Answer, Recorder
from tests.unit.ansible.test_kubernetes_files import fleet

pytestmark = pytest.mark.xdist_group("etcd")
NAMES = ("ctl01", "ctl02", "ctl03")
KEY = "GPUFLEET_SECRET_BACKUP_{}_LAB"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Member]]:
    """Three running members."""
    members = make_members(tmp_path_factory.mktemp("members"), NAMES)
    kubelet = Kubelet(members)
    kubelet.start()
    yield members
    kubelet.stop()


def playing(
    folder: Path, target: Target, members: list[Member], backup: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, Any, str]:
    """Run the restore as `gpufleet operate` does, each host with the folder of its member."""
    kind = target.store["kind"]
    shown = {key: value for key, value in target.store.items() if key != "kind"}
    declared = f"    backups: {json.dumps({kind: shown})}\n    scheduler: kubernetes\n"
    text = fleet("1.35").replace("    scheduler: kubernetes\n", declared)
    recorder = Recorder(folder, text, real=["etcd_restore", "backup_fetch"])
    monkeypatch.setenv(KEY.format("KEY"), target.identity)
    monkeypatch.setenv(KEY.format("S3_KEY"), "AKIAEXAMPLE:secret")
    monkeypatch.setenv(KEY.format("SSH_KEY"), "c2VjcmV0")
    mine = "{{ test_folders[inventory_hostname] }}"
    variables = {
        "test_folders": {member.name: str(member.folder) for member in members},
        "kubernetes_control_plane_backup_folder": f"{mine}/backups",
        "restore_kubernetes": f"{mine}/kubernetes",
        "restore_program": f"{mine}/bin/etcd-restore",
        "restore_fetch_program": target.program,
        "operation_backup": f"remote:{backup}",
        "operation_remote": backup,
        "operation_discard_newer": True,
    }
    known = Answer("kubeadm", {"member": True})
    return recorder.play("restore.yml", known, limit="rack_controllers", **variables)


@pytest.mark.parametrize("kind", ["s3", "rsync"])
def test_members_without_any_local_snapshot_are_restored_from_the_remote_target(
    cluster: list[Member], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    second = cluster[1]
    folder = second.folder / "backups"
    with ExitStack() as stack:
        if kind == "s3":
            store, key = stack.enter_context(s3_server()), ""
        else:
            store, key = stack.enter_context(ssh_server(tmp_path / "ssh"))
        target = Target(tmp_path / "host", store, [etcd_source(folder, "ctl02")])
        if key:
            target.write_key("ssh-key", base64.b64decode(key).decode())
            target.write_key("known_hosts", f"[127.0.0.1]:{store['port']} {store['host_key']}\n")
        second.put(kept=f"before {kind}")
        second.take(folder)
        target.run("send", "etcd")
        (name,) = target.listed()
        second.put(kept="after", late="after")
        for member in cluster:
            shutil.rmtree(member.folder / "backups", ignore_errors=True)

        (tmp_path / "wrong").mkdir()
        wrong = name.replace("ctl02", "ctl09")
        _, _, reported = playing(tmp_path / "wrong", target, cluster, wrong, monkeypatch)
        assert f"has no copy {wrong}" in reported and f"The newest: {name}" in reported, reported[-3000:]
        assert second.values()["kept"] == "after"
        (tmp_path / "right").mkdir()
        notes, facts, reported = playing(tmp_path / "right", target, cluster, name, monkeypatch)
        restored = {host for host, true in facts.items() if "operation_done" in true}
        assert restored == set(NAMES), reported[-3000:]
        assert target.identity not in reported
        written = [
            item["path"] for note in notes if note.module == "files" for item in note.arguments["files"]
        ]
        # Hosts that are new get what the fetch needs.
        assert {"/usr/lib/gpufleet/backup-target", "/etc/gpufleet/backup/target.json"} <= set(written)
    for member in cluster:
        assert member.values()["kept"] == f"before {kind}"
        assert "late" not in member.values()
        assert not (member.folder / "backups" / "restore").exists()
