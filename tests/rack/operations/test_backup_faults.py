"""Failed backups keep the earlier ones."""

from __future__ import annotations

from tests.rack.operations.operating import KEPT, failures, operate, wait_on
from tests.rack.site import Site


def test_full_disk_and_power_cut_keep_the_last_backup(site_to_break: Site) -> None:
    site = site_to_break
    lab = site.lab
    # Space for one backup and the start of a second: then there is no inode left.
    lab.sh("ctl01", "mkdir /mnt/small; mount -t tmpfs -o size=64m,nr_inodes=9 tmpfs /mnt/small")
    small = ("-o", "folder=/mnt/small", "-o", "reserve_mib=0", "-o", "to=none")
    operate(site, "backup", *small)
    state = "cd /mnt/small; find . -type f -name '*.*z*' | sort | xargs sha256sum"
    first = lab.sh("ctl01", state)
    assert first.count("slurm-lab-") == 3

    full = operate(site, "backup", *small, code=4)
    assert "is full" in failures(full) and "untouched" in failures(full)
    assert lab.sh("ctl01", f"{state}; ls -A").count(".new-") == 0
    assert lab.sh("ctl01", state) == first
    scarce = operate(site, "backup", *small[:2], "-o", "reserve_mib=65", code=4)
    assert "have to be left" in failures(scarce)

    slow = "/usr/local/bin/mariadb-dump"
    lab.sh("ctl01", f"printf '#!/bin/sh\\nsleep 600\\n' >{slow}; chmod 755 {slow}")
    with site.configuring("backup", "-o", "to=none", verb="operate") as run:
        wait_on(site, f"ls -d {KEPT}/.new-*")
        run.kill()
        lab.rack.stop("ctl01", force=True)
    lab.rack.start("ctl01")
    lab.sh("ctl01", f"rm {slow}")
    again = operate(site, "backup", "--resume", "-o", "to=none")
    assert again["states"]["ctl01"] == "done"
    kept = lab.sh("ctl01", f"ls -A {KEPT}").split()
    assert [name for name in kept if name.startswith("slurm-lab-")] and not [n for n in kept if ".new-" in n]
