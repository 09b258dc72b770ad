"""The restore of a site: by its scheduler, and one site at a time."""

from __future__ import annotations

from pathlib import Path

from tests.rack.lab import fleet_text
from tests.unit.ansible.recorded import Answer, Recorder
from tests.unit.ansible.test_kubernetes_files import fleet

MADE = Answer("slurm_restore", {"manifest": {"created": "now"}, "jobs": [], "kept": ["the former"]})


def test_one_slurm_site_is_restored_as_slurm_and_two_sites_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    slurm = Recorder(tmp_path / "one", fleet_text(controllers=2))
    variables = {"operation_backup": "/var/backups/gpufleet/slurm/slurm-lab-1"}
    notes, facts, reported = slurm.play("restore.yml", MADE, limit="rack_controllers", **variables)
    modules = [note.module for note in notes]
    order = [modules.index(name) for name in ("slurm_restore", "units", "slurm_wait")]
    assert order == sorted(order), reported[-2000:]
    assert "etcd_restore" not in modules
    assert {host for host, true in facts.items() if "operation_done" in true} == {"ctl01", "ctl02"}

    (tmp_path / "two").mkdir()
    both = Recorder(tmp_path / "two", fleet("1.35"))
    elsewhere = {"gpufleet_site": "{{ 'other' if inventory_hostname == 'ctl03' else 'lab' }}"}
    notes, _, reported = both.play("restore.yml", limit="rack_controllers", **variables, **elsewhere)
    assert notes == [] and "has controllers of the sites" in reported and "Name it with --site" in reported


def test_newest_snapshot_of_the_first_member_is_fetched_with_private_mode(tmp_path: Path) -> None:
    for moment in ("20260101T000000Z", "20260102T000000Z"):
        for name in ("about.json", "pki.tar", "snapshot.db"):
            path = tmp_path / "host" / f"etcd-{moment}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{name} of {moment}")
    recorder = Recorder(tmp_path, fleet("1.35"))
    here = tmp_path / "here"
    folders = {"operation_to": str(here), "kubernetes_control_plane_backup_folder": str(tmp_path / "host")}
    notes, _, reported = recorder.play("backup.yml", limit="rack_controllers", **folders)
    assert sorted(note.host for note in notes) == ["ctl01", "ctl02", "ctl03"]
    assert {note.arguments["units"][0]["name"] for note in notes} == {"gpufleet-etcd-backup.service"}
    (brought,) = here.iterdir()
    assert brought.name == "etcd-lab-20260102T000000Z", reported[-2000:]
    assert brought.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.read_text() for path in brought.iterdir()} == {
        name: f"{name} of 20260102T000000Z" for name in ("about.json", "pki.tar", "snapshot.db")
    }
