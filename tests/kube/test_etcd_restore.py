"""Snapshots of etcd restored by the role's program, with real etcd as one member and as three."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.members import FILES, PATH, Kubelet, Member, make_members
from tests.unit.ansible.recorded import Answer, Recorder
from tests.unit.ansible.test_kubernetes_files import fleet

pytestmark = pytest.mark.xdist_group("etcd")
NAMES = ("ctl01", "ctl02", "ctl03")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Member]]:
    """Three running members. Tests write their own keys."""
    members = make_members(tmp_path_factory.mktemp("members"), NAMES)
    kubelet = Kubelet(members)
    kubelet.start()
    yield members
    kubelet.stop()


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Hosts of the playbook. Only the restore module is real."""
    return Recorder(tmp_path_factory.mktemp("playbook"), fleet("1.35"), real=["etcd_restore"])


MEMBER = Answer("kubeadm", {"member": True})


def play(recorder: Recorder, members: list[Member], backup: str, *answers: Answer, **more: Any) -> Any:
    """Run the playbook as `gpufleet operate` does, each host with the folder of its member."""
    folders = {member.name: str(member.folder) for member in members}
    mine = "{{ test_folders[inventory_hostname] }}"
    variables = {
        "test_folders": folders,
        "kubernetes_control_plane_backup_folder": f"{mine}/backups",
        "restore_kubernetes": f"{mine}/kubernetes",
        "restore_program": f"{mine}/bin/etcd-restore",
        "operation_backup": backup,
    }
    return recorder.play("restore.yml", *answers, limit="rack_controllers", **variables | more)


@pytest.mark.fresh
def test_three_members_are_restored_from_the_snapshot_without_reused_revisions(
    cluster: list[Member], recorder: Recorder, tmp_path: Path
) -> None:
    first, second = cluster[:2]
    first.put(kept="before", gone="before")
    # As if only one member had taken it.
    kept = second.take(second.folder / "backups")
    place = f"{kept}{{{{ '' if inventory_hostname == 'ctl02' else '-none' }}}}"
    first.put(kept="after", late="after")
    first.etcdctl("del", "gone")
    before = first.revision
    notes, facts, reported = play(recorder, cluster, place, MEMBER, operation_discard_newer=True)
    assert {host for host, true in facts.items() if "operation_done" in true} == set(NAMES), reported[-3000:]
    assert sorted(note.host for note in notes if note.module == "kubernetes_nodes") == list(NAMES)
    for member in cluster:
        assert {"kept": "before", "gone": "before"}.items() <= member.values().items()
        assert "late" not in member.values()
        listed = json.loads(member.etcdctl("member", "list", "--write-out=json"))["members"]
        assert sorted(item["name"] for item in listed) == list(NAMES)
        (former,) = member.restore("end")["kept"]
        assert former in reported and (Path(former) / "member" / "snap" / "db").is_file()
        assert not [path for path in member.data.iterdir() if "restoring" in path.name]
        assert not (member.folder / "backups" / "restore").exists()
    (asked,) = {
        " ".join(line.split()[-2:]) for member in cluster for line in member.called("snapshot restore")
    }
    bump, compacted = asked.split()
    assert compacted == "--mark-compacted"
    assert int(bump.removeprefix("--bump-revision=")) > before

    # A run that was killed when all was done is not repeated; a new restore is.
    copies = [member.restore("check", str(kept), "--resumed")["done"] for member in cluster]
    assert copies == [True, True, True]
    answers = [member.restore("check", str(kept), "--discard-newer") for member in cluster]
    for answer in answers:
        answer["revision"] = 5_000_000_000
    again = first.restore("order", stdin=json.dumps(answers))
    assert again["bump"] + answers[0]["snapshot_revision"] > 5_000_000_000
    assert again["id"] != former.rpartition("-restore-")[2]


def test_new_hosts_get_the_certificate_authorities_and_nothing_is_restored(
    cluster: list[Member], recorder: Recorder, snapshot: Path, tmp_path: Path
) -> None:
    lost = make_members(tmp_path / "lost", NAMES)
    for member in lost:
        shutil.rmtree(member.kubernetes)
    new = Answer("kubeadm", {"member": False})
    _, facts, reported = play(recorder, lost, str(snapshot), new, operation_here=True)
    assert "run `gpufleet configure` for this site" in reported, reported[-3000:]
    assert not any("operation_done" in true for true in facts.values())
    kept = lost[0].kubernetes / "gpufleet" / "authorities"
    assert (kept / "ca.crt").read_bytes() == (cluster[0].pki / "ca.crt").read_bytes()
    assert {path.stat().st_mode & 0o077 for path in kept.rglob("*")} == {0}
    assert not any(member.kubernetes.exists() for member in lost[1:])


def everything(member: Member) -> dict[str, str]:
    """State that a refusal must not change: everything a restore touches, except etcd's own writes."""
    found = {path.name: path.read_text() for path in member.manifests.iterdir()}
    found |= {path.name: "" for path in member.data.iterdir()}
    orders = (member.kubernetes / "gpufleet").rglob("*")
    return found | {str(path): path.read_text() for path in orders if path.is_file()}


@pytest.fixture
def snapshot(cluster: list[Member], tmp_path: Path) -> Path:
    return cluster[0].take(tmp_path / "backups")


def edit(snapshot: Path, **values: Any) -> None:
    about = json.loads((snapshot / "about.json").read_text())
    (snapshot / "about.json").write_text(json.dumps(about | values))


def truncated(snapshot: Path, _member: Member) -> None:
    with (snapshot / "snapshot.db").open("r+b") as stream:
        stream.truncate((snapshot / "snapshot.db").stat().st_size - 4096)


def changed(snapshot: Path, _member: Member) -> None:
    with (snapshot / "snapshot.db").open("r+b") as stream:
        stream.seek(5000)
        stream.write(b"x")


def of_another_cluster(snapshot: Path, _member: Member) -> None:
    folder = snapshot / "other"
    (folder / "etcd").mkdir(parents=True)
    with tarfile.open(snapshot / "pki.tar", "w") as archive:
        for name in ("ca.crt", "ca.key"):
            (folder / name).write_text("of another cluster")
            archive.add(folder / name, arcname=name)


def too_large(snapshot: Path, _member: Member) -> None:
    with (snapshot / "snapshot.db").open("r+b") as stream:
        stream.truncate(1 << 43)  # 8 TiB, as far as its size goes


def with_a_lost_key(snapshot: Path, _member: Member) -> None:
    edit(snapshot, encryption_keys=["0" * 64])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (truncated, "is not what etcd has written"),
        (changed, "is not what etcd has written"),
        (of_another_cluster, "is of another cluster"),
        (too_large, "MiB beside those that are there"),
        (with_a_lost_key, "no secret could be read"),
        (
            lambda snapshot, _: edit(snapshot, kubernetes="1.36.0"),
            "is of Kubernetes 1.36.0, and 1.35.4 runs here",
        ),
        (lambda snapshot, _: edit(snapshot, etcd="9.1.0"), "is of etcd 9.1.0"),
        (lambda snapshot, _: (snapshot / "about.json").unlink(), "is no snapshot of etcd"),
        (lambda _, member: member.put(newer="yes"), "what was changed since would be gone"),
    ],
)
def test_invalid_restore_is_refused_and_changes_nothing(
    cluster: list[Member], snapshot: Path, spoil: Any, says: str
) -> None:
    member = cluster[0]
    spoil(snapshot, member)
    before = everything(member)
    assert says in member.restore("check", str(snapshot), code=1)
    assert everything(member) == before


def test_unreadable_data_is_discarded_only_with_discard_newer(
    cluster: list[Member], snapshot: Path, tmp_path: Path
) -> None:
    (single,) = make_members(tmp_path / "members", ["ctl01"])
    shutil.copytree(cluster[0].pki, single.pki, dirs_exist_ok=True)
    assert single.restore("check", str(snapshot))["revision"] == 0
    (single.data / "member" / "snap").mkdir(parents=True)
    (single.data / "member" / "snap" / "db").write_bytes(b"broken" * 1000)
    assert "cannot be read" in single.restore("check", str(snapshot), code=1)
    assert single.restore("check", str(snapshot), "--discard-newer")["revision"] is None


def test_disk_full_during_a_restore_leaves_etcd_running(cluster: list[Member], snapshot: Path) -> None:
    member = cluster[0]
    before = everything(member)
    answer = member.restore("check", str(snapshot), "--discard-newer")
    order = json.dumps(member.restore("order", stdin=json.dumps([answer])))
    (member.folder / "no-room").touch()
    reported = member.restore("prepare", str(snapshot), stdin=order, code=1)
    (member.folder / "no-room").unlink()
    assert "no space left on device" in reported and "nothing was stopped" in reported
    assert "no data were prepared here" in member.restore("stop", code=1)
    member.restore("clean")
    after = everything(member)
    assert after == {path: text for path, text in before.items() if not path.endswith("order.json")}
    member.put(still="running")


# Run a step once for each of its moments: kill it there, as with kill -9, then run it to its end. A moment
# is a disk change or a program run. Prints the number of moments, and differences caused by a kill.
KILLED = """\
import json, os, runpy, shutil, signal, subprocess, sys
from pathlib import Path
folder, order, program, step, *words = sys.argv[1:]
def run(left):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    def counted(function):
        def call(*words, **more):
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*words, **more)
        return call
    os.rename, os.unlink = counted(os.rename), counted(os.unlink)
    shutil.rmtree, subprocess.run = counted(shutil.rmtree), counted(subprocess.run)
    sys.argv = [program, step, *words]
    sys.path.insert(0, os.path.dirname(program))
    sys.stdin, sys.stdout = open(order), open(os.devnull, "w")
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        os._exit(end.code or 0)
def there():
    found = (str(path.relative_to(folder)) for path in Path(folder).rglob("*"))
    return sorted(path for path in found if "/wal/" not in path)
saved, moment, different = folder + ".saved", 0, []
shutil.copytree(folder, saved)
def again():
    shutil.rmtree(folder)
    shutil.copytree(saved, folder)
assert run(10**9) == 0
expected = there()
while True:
    again()
    if run(moment) == 0:
        break
    if run(10**9) != 0 or there() != expected:
        different.append([moment, there()])
    moment += 1
shutil.rmtree(saved)
print(json.dumps([moment, different]))
"""


def test_next_run_completes_a_step_that_was_killed_at_any_point(
    cluster: list[Member], snapshot: Path, tmp_path: Path
) -> None:
    """One stopped member, so that each step only changes the disk."""
    (single,) = make_members(tmp_path / "members", ["ctl01"])
    shutil.copytree(cluster[0].pki, single.pki, dirs_exist_ok=True)
    (single.data / "member").mkdir()
    (single.data / "member" / "former").touch()
    order = tmp_path / "order.json"
    answer = single.restore("check", str(snapshot))
    order.write_text(json.dumps(single.restore("order", stdin=json.dumps([answer]))))
    moments = {}
    for step, words in (("prepare", [snapshot]), ("stop", []), ("exchange", []), ("start", [])):
        words = [
            single.folder,
            order,
            FILES / "etcd-restore",
            step,
            *words,
            "--kubernetes",
            single.kubernetes,
        ]
        done = subprocess.run(
            [sys.executable, "-c", KILLED, *words],
            env={"PATH": f"{single.folder}/bin:{PATH}"},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        moments[step], different = json.loads(done.stdout)
        assert different == [], (step, done.stderr)
    least = {"prepare": 3, "stop": 8, "exchange": 4, "start": 1}
    assert all(moments[step] >= count for step, count in least.items()), moments
    kubelet = Kubelet([single])
    kubelet.start()
    try:
        for step in ("wait", "serve", "end"):
            reported = single.restore(step)
        assert single.values() == cluster[0].values()
    finally:
        kubelet.stop()
    (former,) = reported["kept"]
    assert (Path(former) / "member" / "former").exists()
    # The last killed run may have completed unnoticed.
    assert single.restore("check", str(snapshot), "--resumed")["done"]
