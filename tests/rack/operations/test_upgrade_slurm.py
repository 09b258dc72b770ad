"""Upgrade of Slurm on a site with a running job.

Debian 12 has one version of Slurm. The other is the same with the number 23.02.8 in its packages and
programs: what is tested is the order, the refusals and what survives, and not that Slurm converts a
database.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.rack.lab import Lab
from tests.rack.operations.operating import (
    began,
    complete_job,
    failures,
    lose_power,
    operate,
    wait_on,
    wait_until,
)
from tests.rack.site import Site

OLD, NEW = "22.05.8", "23.02.8"
PACKAGES = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-mysql-plugin",
    "libpam-slurm-adopt",
)
SOURCE = "deb [trusted=yes] file:/srv/slurm ./"


def renumbered(lab: Lab, folder: Path) -> bytes:
    """A tar of a package repository with the other version, made of the rack's own."""
    for package in PACKAGES:
        (found,) = Path(lab.rack.record.repository).glob(f"debian/pool/{package}_{OLD}*.deb")
        renumber(found, folder)
    index = subprocess.run(["apt-ftparchive", "packages", "."], cwd=folder, capture_output=True, check=True)
    (folder / "Packages").write_bytes(index.stdout)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder, "srv/slurm")
    return packed.getvalue()


def renumber(package: Path, folder: Path) -> None:
    """A package whose version and whose programs say the other number, which is as long."""
    root = folder / "root"
    subprocess.run(["dpkg-deb", "-R", package, root], check=True)
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.write_bytes(path.read_bytes().replace(OLD.encode(), NEW.encode()))
    command = [
        "dpkg-deb",
        "--root-owner-group",
        "-Znone",
        "-b",
        str(root),
        str(folder / package.name.replace(OLD, NEW)),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-r", str(root)], check=True)


def offer(lab: Lab, repository: bytes) -> None:
    """All hosts have the other version's packages to choose from."""
    for host in lab.healthy:
        done = subprocess.run(
            lab.rack.ssh_command(
                host, f"sudo tar -x -C / && echo '{SOURCE}' | sudo tee /etc/apt/sources.list.d/next.list"
            ),
            input=repository,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def versions(lab: Lab) -> set[str]:
    """What all hosts have installed."""
    query = "dpkg-query -W -f '${Version}\\n' slurm-client"
    return {lab.sh(host, query).split("-")[0] for host in lab.healthy}


def test_upgrade_keeps_running_jobs_and_refuses_before_any_change(
    site_to_break: Site, tmp_path: Path
) -> None:
    site = site_to_break
    lab = site.lab
    refused = operate(site, "upgrade_slurm", "-o", "version=24.11.5", code=4)
    assert "Go in steps: 23.11, then 24.11" in failures(refused)
    assert refused["changed"] == 0
    offer(lab, renumbered(lab, tmp_path))

    # An upgrade of the operating system leaves Slurm as it is, with the other version in the repositories.
    system = operate(site, "upgrade_os", "--limit", "dgx02,login01")
    assert set(system["states"].values()) == {"done"}
    assert versions(lab) == {OLD}
    held = lab.sh("dgx02", "apt-mark showhold").split()
    assert {"slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "libmunge2"} <= set(held)

    waits = "until test -e /tmp/end; do sleep 0.3; done"
    script = f"cd /tmp; su ada -c \"sbatch --parsable -w dgx01 -A research --wrap '{waits}'\""
    job = int(lab.sh("login01", script))
    wait_on(site, f"squeue -h -j {job} -t running | grep -q .")

    # Without a backup there is no rollback: everything continues in the installed version.
    lab.sh("ctl01", "mkdir /mnt/small; mount -t tmpfs -o size=64m,nr_inodes=3 tmpfs /mnt/small")
    small = ("-o", "folder=/mnt/small", "-o", "reserve_mib=0")
    failed = operate(site, "upgrade_slurm", "-o", f"version={NEW}", *small, code=4)
    assert "/mnt/small is full" in failures(failed)
    assert versions(lab) == {OLD}
    assert lab.sh("ctl01", "systemctl is-active slurmctld slurmdbd").split() == ["active", "active"]
    assert lab.sh("ctl02", "systemctl is-active slurmctld").strip() == "active"

    # This machine fails when only the database host is upgraded: everything is stopped,
    # slurmdbd has not converted its database yet, and the job continues.
    with site.configuring("upgrade_slurm", "-o", f"version={NEW}", "-o", "batch=50%", verb="operate") as run:
        wait_until(lambda: began(site, "ctl01", "Upgrade packages of the database host"), run)
        lose_power(site, "upgrade_slurm", run)
    assert lab.sh("ctl01", "systemctl is-active slurmctld slurmdbd", code=None).split() == ["inactive"] * 2
    assert versions(lab) == {OLD, NEW}
    lab.sh("dgx01", "pgrep -u ada -f slurm_script")

    upgraded = operate(site, "upgrade_slurm", "--resume")
    assert set(upgraded["states"].values()) == {"done"}
    assert versions(lab) == {NEW}
    order = [name for name in first_changes(upgraded) if name]
    assert order == sorted(order, key=lambda role: ("ctl01", "ctl02", "dgx", "login").index(role))
    assert "slurm-lab-" in lab.sh("ctl01", "ls /var/backups/gpufleet/slurm")

    assert f"{job} RUNNING" in lab.sh("ctl01", "squeue -h -o '%i %T'")
    lab.sh("dgx01", "touch /tmp/end")
    wait_on(site, f"sacct -X -n -P -a -j {job} -o State | grep -q COMPLETED")
    site.wait_for_nodes()
    assert complete_job(site) > job
    again = operate(site, "upgrade_slurm", "-o", f"version={NEW}")
    assert again["changed"] == 0
    assert set(held) <= set(lab.sh("dgx02", "apt-mark showhold").split())


def first_changes(result: dict[str, object]) -> Iterator[str]:
    """Hosts whose packages were upgraded, in the order of task results."""
    for change in result["changes"]:  # type: ignore[attr-defined]
        if "packages" in change["task"] or "commands" in change["task"]:
            for host in sorted(change["hosts"]):
                yield "dgx" if host.startswith("dgx") else "login" if host.startswith("login") else host
