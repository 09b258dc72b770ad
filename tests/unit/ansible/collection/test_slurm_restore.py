"""Restores of Slurm: checked first, exchanged atomically, and continued after a kill."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.controller import Controller, Run, make, restore_backup


def test_restore_exchanges_state_and_tables_and_keeps_the_old_ones(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run
) -> None:
    made = make(backup, controller, run)["path"]
    (controller.state / "job_state").write_text("none")
    (controller.state / ".restoring").mkdir()  # of a killed restore
    judged = restore_backup(restore, made, run, check=True)
    assert judged["jobs"] == [7] and controller.asked() == []
    assert (controller.state / "job_state").read_text() == "none"

    done = restore_backup(restore, made, run)
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
def test_backup_that_does_not_match_the_cluster_is_refused(
    backup: ModuleType,
    restore: ModuleType,
    controller: Controller,
    run: Run,
    how: dict[str, Any],
    message: str,
) -> None:
    made = make(backup, controller, run)["path"]
    changed(made, **how)
    assert message in restore_backup(restore, made, run)["msg"]
    assert controller.asked() == [] and (controller.state / "heartbeat").exists()


def test_backup_too_old_for_this_slurm_is_refused_and_one_in_range_is_not(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run
) -> None:
    made = make(backup, controller, run)["path"]
    controller.programs.add("dpkg-query", "printf 'ii \\tslurmctld\\tslurm-wlm\\t23.02.8-4\\n'")
    changed(made, versions={"slurm": "20.11.9"})
    assert "takes over from 22.05, 21.08 only" in restore_backup(restore, made, run)["msg"]
    changed(made, versions={"slurm": "21.08.8"})
    assert restore_backup(restore, made, run, check=True)["changed"] is True


def test_jobs_newer_than_the_backup_are_discarded_only_with_consent(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run
) -> None:
    made = make(backup, controller, run)["path"]
    (controller.folder / "jobs").write_text("3\t100\t500\t7\n")
    assert "newer than the backup" in restore_backup(restore, made, run)["msg"]
    assert restore_backup(restore, made, run, discard_newer=True)["changed"] is True


def test_nothing_is_exchanged_while_a_daemon_runs_or_the_dump_lacks_jobs(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run
) -> None:
    made = make(backup, controller, run)["path"]
    controller.programs.add("systemctl", "echo active")
    assert "runs on this host" in restore_backup(restore, made, run)["msg"]
    assert controller.asked() == []
    controller.programs.add("systemctl", "echo inactive; exit 3")
    (controller.folder / "jobs").write_text("1\t50\t60\t1\n")
    assert "brought 1 jobs, and its manifest says 2" in restore_backup(restore, made, run)["msg"]
    assert not [line for line in controller.asked() if "RENAME" in line]
    assert (controller.state / "heartbeat").exists()


def killed_in_the_middle(controller: Controller, restore: ModuleType, path: str, run: Run, at: str) -> None:
    """A restore of operation `one` that ends when it would move a file."""
    controller.programs.add("mv", f'case "$*" in *{at}*) exit 1;; esac; exec /usr/bin/mv "$@"')
    assert "could not be exchanged" in restore_backup(restore, path, run, operation="one")["msg"]
    controller.programs.add("mv", 'exec /usr/bin/mv "$@"')


@pytest.mark.parametrize("at", ["hash.1 .before", ".restoring/hash.1"])
def test_killed_restore_is_continued_and_keeps_all_of_the_old_state(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run, at: str
) -> None:
    made = make(backup, controller, run)["path"]
    (controller.state / "job_state").write_text("none")
    (controller.state / "zz_last").write_text("former")
    killed_in_the_middle(controller, restore, made, run, at)
    assert (controller.state / ".restoring").exists()
    asked = len(controller.asked())

    done = restore_backup(restore, made, run, operation="one")
    assert (controller.state / "job_state").read_text() == "jobs 1 2"
    assert (controller.state / "hash.1" / "script").exists()
    assert not (controller.state / "zz_last").exists() and not (controller.state / ".restoring").exists()
    (former,) = controller.state.glob(".before-restore-*")
    assert done["kept"][1] == str(former)
    assert (former / "job_state").read_text() == "none" and (former / "zz_last").exists()
    # The tables are exchanged once: otherwise the previous ones would be lost.
    assert [line for line in controller.asked()[asked:] if "RENAME" in line] == []


def test_finished_restore_is_not_repeated_by_its_own_operation(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run
) -> None:
    made = make(backup, controller, run)["path"]
    first = restore_backup(restore, made, run, operation="one")
    # The run was killed after it, and slurmctld has reported jobs to accounting since.
    (controller.folder / "jobs").write_text("2\t100\t900\t7\n")
    controller.programs.add("systemctl", "echo active")
    for check in (True, False):
        again = restore_backup(restore, made, run, operation="one", check=check)
        assert again["changed"] is False and again["jobs"] == [7]
    assert again["kept"] == first["kept"]
    assert "newer than the backup" in restore_backup(restore, made, run, operation="two")["msg"]
    assert "newer than the backup" in restore_backup(restore, made, run)["msg"]


def test_nothing_is_stopped_while_another_restore_runs(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run
) -> None:
    made = make(backup, controller, run)["path"]
    with restore.exclusive_lock(controller.backups):
        reported = restore_backup(restore, made, run, operation="one", check=True)["msg"]
    assert "Another backup or restore is running" in reported


def test_daemon_started_while_the_database_loads_stops_the_restore(
    backup: ModuleType, restore: ModuleType, controller: Controller, run: Run
) -> None:
    made = make(backup, controller, run)["path"]
    seen = controller.folder / "seen"
    seen.write_text("x\n")
    controller.programs.add(
        "systemctl", f"echo x >>{seen}; [ $(wc -l <{seen}) -gt 3 ] && echo active; exit 3"
    )
    assert "runs on this host" in restore_backup(restore, made, run)["msg"]
    assert not [line for line in controller.asked() if "RENAME" in line]
    assert (controller.state / "heartbeat").exists()
