"""Backups and restores of Slurm, whole or not at all; on a rack they meet the real MariaDB and Slurm."""

from __future__ import annotations

import gzip
import json
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
UPGRADES = {"23.02": ["22.05", "21.08"], "23.11": ["23.02", "22.05"]}
# Answers by what the statement asks for, and keeps what changes something.
MARIADB = """\
read -r statement
case "$statement" in
  *data_length*) echo 1000;;
  *table_name*_before_*) ! grep -q RENAME {folder}/asked || echo lab_job_table;;
  *table_name*) printf 'lab_job_table\\nqos_table\\n';;
  *"COUNT(*)"*) cat {folder}/jobs;;
  *VERSION*) echo 10.11.6-MariaDB;;
  *) echo "$statement" >>{folder}/asked;;
esac
"""
PASSWORD = "planted-password-1"


class Controller:
    """A controller whose MariaDB is a program, and whose files are below a folder."""

    def __init__(self, folder: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.programs = folder, programs
        self.state, self.backups = folder / "state", folder / "backups"
        (self.state / "hash.1").mkdir(parents=True)
        (self.state / "job_state").write_text("jobs 1 2")
        (self.state / "hash.1" / "script").write_text("#!/bin/sh")
        (self.state / "heartbeat").write_text("now")
        (self.state / "node_state.new").write_text("half")
        etc = folder / "etc"
        etc.mkdir()
        (etc / "slurm.conf").write_text(f"# test\nClusterName=lab\nStateSaveLocation={self.state}\n")
        (etc / "slurmdbd.conf").write_text(f"StorageLoc=acct_db\nStoragePass={PASSWORD}\n")
        (folder / "jobs").write_text("2\t100\t120\t7\n")
        programs.add("mariadb", MARIADB.replace("{folder}", str(folder)))
        self.dumps("echo 'CREATE TABLE lab_job_table;'; echo '-- Dump completed on'")
        programs.add("scontrol", "echo 'Slurmctld(primary) at ctl01 is UP'; exit 1")
        programs.add("squeue", "echo '7|PENDING|ada'")
        programs.add("dpkg-query", "printf 'ii \\tslurmctld\\tslurm-wlm\\t22.05.8-4\\n'")
        programs.add("systemctl", "echo inactive; exit 3")
        programs.add("setpriv", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
        files = sys.modules["ansible_collections.gpufleet.rack.plugins.module_utils.slurm_files"]
        monkeypatch.setattr(files, "CONFIGURATION", etc)
        self.etc = etc

    def dumps(self, script: str) -> None:
        self.programs.add("mariadb-dump", script)

    def asked(self) -> list[str]:
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def kept(self) -> list[str]:
        return sorted(path.name for path in self.backups.iterdir() if path.name != ".lock")


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loaded = load("slurm_backup")
    stamps = iter(f"2026010{day}T000000Z" for day in range(1, 9))
    real = loaded.time.strftime
    monkeypatch.setattr(loaded, "PAUSE_S", 0.01)
    monkeypatch.setattr(loaded, "TEXTFILES", tmp_path / "textfiles")

    def strftime(form: str, *moment: Any) -> str:
        return next(stamps) if form == "%Y%m%dT%H%M%SZ" else real(form, *moment)

    monkeypatch.setattr(loaded.time, "strftime", strftime)
    return loaded


@pytest.fixture
def restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loaded = load("slurm_restore")
    monkeypatch.setattr(loaded, "DATA", tmp_path / "mysql")
    return loaded


@pytest.fixture
def controller(
    tmp_path: Path,
    programs: Programs,
    monkeypatch: pytest.MonkeyPatch,
    backup: ModuleType,
    restore: ModuleType,
) -> Iterator[Controller]:
    made = Controller(tmp_path / "controller", programs, monkeypatch)
    for module in (backup, restore):
        if hasattr(module, "CONFIGURATION"):
            monkeypatch.setattr(module, "CONFIGURATION", made.etc)
    yield made


def make(backup: ModuleType, controller: Controller, run: Run, **more: Any) -> dict[str, Any]:
    wanted: dict[str, Any] = {"cluster": "lab", "folder": str(controller.backups), "reserve_mib": 1}
    return run(backup, **wanted | more)


def bring(restore: ModuleType, path: str, run: Run, **more: Any) -> dict[str, Any]:
    return run(restore, cluster="lab", path=path, upgrades=UPGRADES, **more)


def test_a_backup_is_whole_for_root_alone_and_has_neither_password_nor_half_files(
    backup: ModuleType, controller: Controller, run: Run
) -> None:
    assert make(backup, controller, run, check=True)["changed"] is True
    assert (
        "There is no earlier backup" in make(backup, controller, run, check=True, reserve_mib=1 << 40)["msg"]
    )
    assert not controller.backups.exists()
    made = Path(make(backup, controller, run)["path"])
    manifest = json.loads((made / "manifest.json").read_text())
    assert manifest["jobs"] == {"count": 2, "submitted": 100, "changed": 120, "last_id": 7}
    assert manifest["queue"] == [{"job": "7", "state": "PENDING", "user": "ada"}]
    assert manifest["versions"] == {"slurm": "22.05.8", "mariadb": "10.11.6-MariaDB"}
    assert gzip.decompress((made / "database.sql.gz").read_bytes()).startswith(b"CREATE TABLE")
    with tarfile.open(made / "state.tar.gz") as archive:
        names = {entry.name for entry in archive if entry.isreg()}
    assert names == {"./job_state", "./hash.1/script"}
    with tarfile.open(made / "configuration.tar.gz") as archive:
        assert archive.getnames() == ["slurm.conf"]
    assert made.stat().st_mode & 0o077 == 0 and (made / "state.tar.gz").stat().st_mode & 0o077 == 0
    dumps = controller.programs.called("mariadb-dump")
    assert "--single-transaction" in dumps[0] and PASSWORD not in "".join(controller.programs.called())


def test_only_a_backup_that_was_made_is_told_to_prometheus_where_it_measures_the_host(
    backup: ModuleType, controller: Controller, run: Run
) -> None:
    make(backup, controller, run)
    assert not backup.TEXTFILES.exists()
    backup.TEXTFILES.mkdir()
    assert make(backup, controller, run, reserve_mib=1 << 40)["failed"]
    assert not list(backup.TEXTFILES.iterdir())
    before = int(time.time())
    make(backup, controller, run)
    (metric,) = backup.TEXTFILES.iterdir()
    assert metric.name.endswith(".prom") and metric.stat().st_mode & 0o777 == 0o644
    name, value = metric.read_text().splitlines()[1].split()
    assert name == 'gpufleet_backup_last_success_timestamp_seconds{backup="slurm"}'
    assert before <= int(value) <= time.time() + 1


def test_the_queue_is_unknown_and_not_asked_for_while_no_controller_answers(
    backup: ModuleType, controller: Controller, run: Run
) -> None:
    controller.programs.add("scontrol", "echo 'Slurmctld(primary) at ctl01 is DOWN'; exit 1")
    made = Path(make(backup, controller, run)["path"])
    assert json.loads((made / "manifest.json").read_text())["queue"] is None
    assert controller.programs.called("squeue") == []


def test_only_as_many_backups_are_kept_as_were_asked_for(
    backup: ModuleType, controller: Controller, run: Run
) -> None:
    for _ in range(3):
        last = make(backup, controller, run, keep=2)
    assert last["removed"] == ["slurm-lab-20260101T000000Z"]
    assert controller.kept() == ["slurm-lab-20260102T000000Z", "slurm-lab-20260103T000000Z"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'CREATE TABLE'", "did not come to its end"),
        ("echo '-- Dump completed'; echo 'table is marked as crashed' >&2; exit 2", "marked as crashed"),
    ],
)
def test_a_dump_that_does_not_end_well_leaves_the_earlier_backup_and_nothing_else(
    backup: ModuleType, controller: Controller, run: Run, script: str, message: str
) -> None:
    make(backup, controller, run)
    controller.dumps(script)
    assert message in make(backup, controller, run)["msg"]
    assert controller.kept() == ["slurm-lab-20260101T000000Z"]


def test_a_disk_without_room_is_refused_before_anything_is_written(
    backup: ModuleType, controller: Controller, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(backup, controller, run)
    monkeypatch.setattr(backup, "free", lambda folder: 1 << 20)
    said = make(backup, controller, run)["msg"]
    assert "1.0 MiB free" in said and "The last backup, slurm-lab-20260101T000000Z, is untouched" in said
    assert len(controller.programs.called("mariadb-dump")) == 1


def test_what_a_killed_run_left_is_removed_and_a_second_run_at_once_is_refused(
    backup: ModuleType, controller: Controller, run: Run
) -> None:
    left = controller.backups / ".new-slurm-lab-20250101T000000Z"
    left.mkdir(parents=True)
    (left / "state.tar.gz").write_text("half")
    with backup.alone(controller.backups):
        assert "Another backup or restore is at work" in make(backup, controller, run)["msg"]
    make(backup, controller, run)
    assert not left.exists()


def test_a_state_that_changes_while_it_is_copied_is_copied_again(
    backup: ModuleType, controller: Controller, run: Run
) -> None:
    seen = controller.folder / "seen"
    changes = f"[ -e {seen} ] || echo more >>{controller.state}/job_state; touch {seen}"
    controller.programs.add("tar", f'{changes}; exec /usr/bin/tar "$@"')
    made = Path(make(backup, controller, run)["path"])
    assert json.loads((made / "manifest.json").read_text())["copies"] == 2
    controller.programs.add("tar", f'echo more >>{controller.state}/job_state; exec /usr/bin/tar "$@"')
    assert "none of them is of one moment" in make(backup, controller, run, quiet_s=0)["msg"]
    assert controller.kept() == [made.name]


def test_another_cluster_is_not_backed_up_under_this_name(
    backup: ModuleType, controller: Controller, run: Run
) -> None:
    assert "is of cluster 'lab'" in make(backup, controller, run, cluster="other")["msg"]


def test_a_restore_exchanges_state_and_tables_and_keeps_the_former_ones(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run
) -> None:
    made = make(backup, controller, run)["path"]
    (controller.state / "job_state").write_text("none")
    (controller.state / ".restoring").mkdir()  # of a restore that was killed
    judged = bring(restore, made, run, check=True)
    assert judged["jobs"] == [7] and controller.asked() == []
    assert (controller.state / "job_state").read_text() == "none"

    done = bring(restore, made, run)
    assert (controller.state / "job_state").read_text() == "jobs 1 2"
    assert not (controller.state / ".restoring").exists()
    former = Path(done["kept"][1])
    assert (former / "job_state").read_text() == "none" and (former / "heartbeat").exists()
    (renamed,) = [line for line in controller.asked() if "RENAME TABLE" in line]
    name = done["kept"][0].removeprefix("database ")
    assert f"`acct_db`.`lab_job_table` TO `{name}`.`lab_job_table`" in renamed
    assert "`acct_db_restoring`.`qos_table` TO `acct_db`.`qos_table`" in renamed


def changed(path: str, **more: Any) -> None:
    manifest = Path(path) / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | more))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"cluster": "other"}, "is of cluster 'other', and this is 'lab'"),
        ({"versions": {"slurm": "23.02.1"}}, "is of Slurm 23.02.1, and 22.05.8 is installed"),
        ({"format": 2}, "form 2"),
        ({"jobs": {}}, "is no backup"),
        ({"files": {"state.tar.gz": {"sha256": "0"}}}, "is not the file that was backed up"),
    ],
)
def test_a_backup_that_does_not_belong_here_is_refused(
    backup: ModuleType,
    restore: ModuleType,
    controller: Controller,
    run: Run,
    how: dict[str, Any],
    message: str,
) -> None:
    made = make(backup, controller, run)["path"]
    changed(made, **how)
    assert message in bring(restore, made, run)["msg"]
    assert controller.asked() == [] and (controller.state / "heartbeat").exists()


def test_a_backup_that_is_too_old_for_this_slurm_is_refused_and_one_in_reach_is_not(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run
) -> None:
    made = make(backup, controller, run)["path"]
    controller.programs.add("dpkg-query", "printf 'ii \\tslurmctld\\tslurm-wlm\\t23.02.8-4\\n'")
    changed(made, versions={"slurm": "20.11.9"})
    assert "takes over from 22.05, 21.08 only" in bring(restore, made, run)["msg"]
    changed(made, versions={"slurm": "21.08.8"})
    assert bring(restore, made, run, check=True)["changed"] is True


def test_jobs_that_are_newer_than_the_backup_are_given_up_by_consent_only(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run
) -> None:
    made = make(backup, controller, run)["path"]
    (controller.folder / "jobs").write_text("3\t100\t500\t7\n")
    assert "newer than the backup" in bring(restore, made, run)["msg"]
    assert bring(restore, made, run, discard_newer=True)["changed"] is True


def test_nothing_is_exchanged_while_a_daemon_runs_or_when_the_dump_lacks_jobs(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run
) -> None:
    made = make(backup, controller, run)["path"]
    controller.programs.add("systemctl", "echo active")
    assert "runs on this host" in bring(restore, made, run)["msg"]
    assert controller.asked() == []
    controller.programs.add("systemctl", "echo inactive; exit 3")
    (controller.folder / "jobs").write_text("1\t50\t60\t1\n")
    assert "brought 1 jobs, and its manifest says 2" in bring(restore, made, run)["msg"]
    assert not [line for line in controller.asked() if "RENAME" in line]
    assert (controller.state / "heartbeat").exists()
