"""Backups and restores of a site with jobs in its queue, with the real MariaDB, slurmdbd and slurmctld."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

from tests.rack.operations.operating import (
    KEPT,
    STATE,
    complete_job,
    failures,
    hold_job,
    lose_power,
    operate,
    records,
    wait_on,
)
from tests.rack.site import Site

FOLDER = STATE.rpartition("/")[0]
REMOTE = "/usr/lib/gpufleet/backup-target"
# Moves one entry, and then hangs.
SLOW_MOVE = '#!/bin/sh\n[ -e /tmp/moved ] && sleep 600; : >/tmp/moved; exec /usr/bin/mv "$@"\n'


def test_backup_is_restored_onto_fresh_controllers_with_accounting_and_queue(
    site_to_break: Site,
) -> None:
    site = site_to_break
    lab = site.lab
    done, waiting = complete_job(site), hold_job(site)

    # The timer makes the same backup, without this machine.
    reported = lab.sh(
        "ctl01", "systemctl is-active gpufleet-slurm-backup.timer; systemctl start gpufleet-slurm-backup"
    )
    assert reported == "active\n"
    (nightly,) = json.loads(lab.sh("ctl01", f"/usr/lib/gpufleet/slurm-backup show {KEPT}"))
    assert nightly["jobs"] >= 1
    # The backup starts its copy.
    wait_on(site, f"{REMOTE} list | grep -q {nightly['name']}")

    made = operate(site, "backup")
    assert made["states"] == {"ctl01": "done", "ctl02": "done"}
    (backup,) = (site.checkout / ".gpufleet" / "backups").iterdir()
    manifest = json.loads((backup / "manifest.json").read_text())
    assert manifest["cluster"] == "lab"
    assert manifest["jobs"]["count"] >= 2
    assert [(each["job"], each["state"]) for each in manifest["queue"]] == [(str(waiting), "PENDING")]
    assert backup.stat().st_mode & 0o077 == 0
    text = contents(backup)
    assert b"INSERT INTO `lab_job_table`" in text and b"ClusterName=lab" in text
    assert not any(value.encode() in text for value in site.secrets.values())
    (copy,) = [item["name"] for item in json.loads(lab.sh("ctl01", f"{REMOTE} list"))][1:]
    assert copy == backup.name
    assert "mount" not in lab.sh("ctl01", "findmnt -t nfs,nfs4 /run/gpufleet-backup || true")
    before = records(site)
    assert str(done) in before and str(waiting) in before

    # Older than a later job: only with consent.
    complete_job(site)
    refused = operate(site, "restore", "-o", f"backup={backup}", code=4)
    assert "newer than the backup" in failures(refused)
    assert lab.sh("ctl01", "systemctl is-active slurmctld slurmdbd").split() == ["active", "active"]

    lab.sh("ctl01", "systemctl stop slurmctld; rm -rf /var/lib/slurm/shared/slurmctld-lab")
    lab.reset("ctl01", "ctl02")
    site.configure("--limit", "rack_controllers", "--skip-preflight")
    assert str(done) not in records(site)

    # This machine fails in the middle of the exchange: nothing starts on a partial state.
    mover = "/usr/local/bin/mv"
    lab.sh("ctl01", f"cat >{mover} <<'END'\n{SLOW_MOVE}END\nchmod 755 {mover}")
    with site.configuring("restore", "-o", f"backup={backup}", verb="operate") as run:
        wait_on(site, "pgrep -f '^sleep 600'", limit_s=180)
        lose_power(site, "restore", run)
    # Before its sleep: a mover that wakes up would continue.
    lab.sh("ctl01", "pkill -9 -f '[/]usr/local/bin/mv' || true")
    lab.sh("ctl01", f"rm {mover}; pkill -f '^sleep 600' || true")
    assert (
        lab.sh("ctl01", "systemctl start slurmctld || true; systemctl is-active slurmctld", code=None)
        == "failed\n"
    )
    assert "did not come to its end" in lab.sh("ctl01", "journalctl -q -o cat -u slurmctld -n 30")
    # A process still running on the controller is not interrupted.
    lab.sh("ctl01", f"systemd-run -q --unit=at-work flock {KEPT}/.lock sleep 600")
    busy = operate(site, "restore", "--resume", code=4)
    assert "Another backup or restore is running" in failures(busy)
    lab.sh("ctl01", "systemctl stop at-work")

    restored = operate(site, "restore", "--resume")
    assert lab.sh("ctl01", f"ls -d {FOLDER}/.before-restore-* | wc -l") == "1\n"
    assert restored["states"] == {"ctl01": "done", "ctl02": "done"}
    assert records(site) == before
    site.wait_for_nodes()
    assert complete_job(site) > waiting
    lab.sh("ctl01", f"scontrol release {waiting}")
    wait_on(site, f"sacct -X -n -P -a -j {waiting} -o State | grep -q COMPLETED")

    # Hosts without any backup take it from the remote target, and need the key of the vault file for it.
    lab.sh("ctl01", f"rm -rf {KEPT}/slurm-*; rm -rf /etc/gpufleet/backup {REMOTE}")
    later = complete_job(site)
    wrong = operate(site, "restore", "-o", f"backup=remote:{copy}x", code=4)
    assert "is no name of a copy" in failures(wrong)
    remote = operate(site, "restore", "-o", f"backup=remote:{copy}", "-o", "discard_newer=true")
    assert remote["states"] == {"ctl01": "done", "ctl02": "done"}
    reported = records(site)
    jobs = {line.partition("|")[0] for line in reported.splitlines()}
    assert str(done) in jobs and str(later) not in jobs
    assert not any(value in json.dumps(remote) for value in site.secrets.values())


def contents(backup: Path) -> bytes:
    """All bytes of a backup."""
    found = (
        gzip.decompress((backup / "database.sql.gz").read_bytes()) + (backup / "manifest.json").read_bytes()
    )
    for name in ("state.tar.gz", "configuration.tar.gz"):
        with tarfile.open(backup / name) as archive:
            for entry in archive:
                file = archive.extractfile(entry) if entry.isreg() else None
                found += file.read() if file else b""
    return found
