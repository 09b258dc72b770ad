"""Backups of Slurm, complete or absent; tests/rack uses the real MariaDB and Slurm."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import tarfile
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.ansible.collection.conftest import PLUGINS
from tests.unit.ansible.collection.controller import PASSWORD, Controller, Run, make

ROLE = PLUGINS.parent / "roles" / "slurm_database"


def test_backup_is_complete_private_and_has_no_password_or_partial_file(
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


def test_only_a_finished_backup_is_reported_to_prometheus(
    backup: ModuleType, backups: ModuleType, controller: Controller, run: Run
) -> None:
    make(backup, controller, run)
    assert not backups.TEXTFILES.exists()
    backups.TEXTFILES.mkdir()
    assert make(backup, controller, run, reserve_mib=1 << 40)["failed"]
    assert not list(backups.TEXTFILES.iterdir())
    before = int(time.time())
    make(backup, controller, run)
    (metric,) = backups.TEXTFILES.iterdir()
    assert metric.name.endswith(".prom") and metric.stat().st_mode & 0o777 == 0o644
    name, value = metric.read_text().splitlines()[1].split()
    assert name == 'gpufleet_backup_last_success_timestamp_seconds{backup="slurm"}'
    assert before <= int(value) <= time.time() + 1


def test_queue_is_unknown_while_no_controller_answers(
    backup: ModuleType, controller: Controller, run: Run
) -> None:
    controller.programs.add("scontrol", "echo 'Slurmctld(primary) at ctl01 is DOWN'; exit 1")
    made = Path(make(backup, controller, run)["path"])
    assert json.loads((made / "manifest.json").read_text())["queue"] is None
    assert controller.programs.called("squeue") == []


def test_only_the_requested_number_of_backups_is_kept(
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
def test_failed_dump_keeps_only_the_earlier_backup(
    backup: ModuleType, controller: Controller, run: Run, script: str, message: str
) -> None:
    make(backup, controller, run)
    controller.dumps(script)
    assert message in make(backup, controller, run)["msg"]
    assert controller.kept() == ["slurm-lab-20260101T000000Z"]


def test_disk_without_room_is_refused_before_anything_is_written(
    backup: ModuleType, backups: ModuleType, controller: Controller, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(backup, controller, run)
    monkeypatch.setattr(backups, "free", lambda folder: 1 << 20)
    reported = make(backup, controller, run)["msg"]
    assert (
        "1.0 MiB free" in reported and "The last backup, slurm-lab-20260101T000000Z, is untouched" in reported
    )
    assert len(controller.programs.called("mariadb-dump")) == 1


def test_leftovers_of_a_killed_run_are_removed_and_a_concurrent_run_is_refused(
    backup: ModuleType, backups: ModuleType, controller: Controller, run: Run
) -> None:
    left = controller.backups / ".new-slurm-lab-20250101T000000Z"
    left.mkdir(parents=True)
    (left / "state.tar.gz").write_text("half")
    with backups.exclusive_lock(controller.backups):
        assert "Another backup or restore is running" in make(backup, controller, run)["msg"]
    make(backup, controller, run)
    assert not left.exists()


def test_state_that_changes_during_the_copy_is_copied_again(
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


def test_program_on_the_host_makes_the_same_backups_without_ansible(
    controller: Controller, tmp_path: Path
) -> None:
    # Only the files that the role installs: neither Ansible nor the collection exists.
    shared = tmp_path / "python" / "ansible_collections/gpufleet/rack/plugins/module_utils"
    shared.mkdir(parents=True)
    for name in re.findall(r"shared: (\w+[.]py)", (ROLE / "tasks" / "configure.yml").read_text()):
        text = (PLUGINS / "module_utils" / name).read_text()
        for place, here in (("/etc/slurm", controller.etc), ("/var/lib/prometheus", tmp_path)):
            text = text.replace(f'Path("{place}', f'Path("{here}')
        (shared / name).write_text(text)
    program = tmp_path / "slurm-backup"
    text = (ROLE / "files" / "slurm-backup").read_text()
    program.write_text(text.replace("/usr/lib/gpufleet/python", str(tmp_path / "python")))

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["/usr/bin/env", "python3", "-S", str(program), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)

    folder = str(controller.backups)
    assert json.loads(call("show", folder).stdout) == []
    made = call("take", "lab", folder, "--keep", "3")
    assert made.returncode == 0, made.stderr
    (about,) = json.loads(call("show", folder).stdout)
    assert made.stdout.strip() == f"{folder}/{about['name']}"
    assert about["jobs"] == 2 and about["bytes"] > 0
    assert controller.backups.stat().st_mode & 0o077 == 0
    controller.dumps("exit 2")
    failed = call("take", "lab", folder)
    assert failed.returncode == 1 and "did not come to its end" in failed.stderr
    assert call("take", "lab", folder, "--keep", "0").returncode == 2
    assert len(json.loads(call("show", folder).stdout)) == 1
