"""Writes what the hosts' root file system has above the distribution: `build_layer.py OUT`.

The programs that know the hardware, in the places of those that would ask the machine's kernel, and
a service that plugs the hardware in before anything else looks for it.
"""

from __future__ import annotations

import compileall
import shutil
import sys
from pathlib import Path
from py_compile import PycInvalidationMode

HERE = Path(__file__).resolve().parent
LIBRARY = "usr/lib/hardware"
# A container may not load modules and reads another kernel's log: these are its own.
KERNEL_TOOLS = {
    "usr/sbin/modprobe": "modules",
    "usr/sbin/rmmod": "modules",
    "usr/sbin/modinfo": "modules",
    "usr/sbin/lsmod": "modules",
    "usr/bin/lsmod": "modules",
    "usr/bin/dmesg": "kernel_log",
    # The machine's kernel need not know RAID or NFS.
    "usr/sbin/mdadm": "mdadm",
    "usr/sbin/mount.nfs": "remote_mount",
    "usr/local/sbin/nvme": "mdadm",
    # Debian's sends management packets, which no adapter would answer.
    "usr/local/sbin/perfquery": "adapters",
}
NAMED = {"modules", "adapters", "mdadm"}

SERVICE = """\
[Unit]
Description=Hardware of this host
DefaultDependencies=no
ConditionPathExists=/srv/hardware/state.json
After=systemd-remount-fs.service
Before=sysinit.target systemd-sysctl.service systemd-tmpfiles-setup-dev.service systemd-tmpfiles-setup.service
Before=shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/python3 -ES /usr/lib/hardware/plug.py
"""
DISKS = """\
[Unit]
Description=Disks of this host
DefaultDependencies=no
ConditionPathExists=/srv/hardware/state.json
After=hardware.service
Before=local-fs-pre.target shutdown.target
Wants=local-fs-pre.target
Conflicts=shutdown.target

[Service]
Type=notify
ExecStart=/usr/bin/python3 -ES /usr/lib/hardware/disks.py
"""
# Debian's packages install theirs beside the stand-ins. The first entry is bookworm's own.
DIVERSIONS = """\
/bin/sh
/bin/sh.distrib
dash
/sbin/mdadm
/sbin/mdadm.distrib
:
/sbin/mount.nfs
/sbin/mount.nfs.distrib
:
"""
# All hosts share the machine's clock, which none of them may set: chronyd measures and reports.
CHRONY = """\
[Unit]
ConditionCapability=

[Service]
ExecStart=
ExecStart=!/usr/sbin/chronyd -x $DAEMON_OPTS
"""
# A test lets a host's clock go wrong for what compares clocks. Without the file nothing changes.
SKEWED = "[Service]\nEnvironmentFile=-/srv/hardware/clock.env\n"


def main(out: Path) -> None:
    shutil.copytree(HERE / "hardware", out / LIBRARY, ignore=shutil.ignore_patterns("__pycache__"))
    # Of no use where this is another Python than the hosts'; else each host need not do it after each reset.
    mode = PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(out / LIBRARY, quiet=1, stripdir=out, prependdir="/", invalidation_mode=mode)
    for place, program in KERNEL_TOOLS.items():
        write(out / place, launcher(program), 0o755)
    units = out / "usr/lib/systemd/system"
    write(units / "hardware.service", SERVICE)
    write(units / "disks.service", DISKS)
    wants = units / "sysinit.target.wants"
    wants.mkdir(parents=True)
    for service in ("hardware.service", "disks.service"):
        (wants / service).symlink_to(f"../{service}")
    write(out / "var/lib/dpkg/diversions", DIVERSIONS)
    write(units / "chrony.service.d/10-hardware.conf", CHRONY)
    for service in ("chrony", "munge", "slurmctld", "slurmd"):
        write(units / f"{service}.service.d/20-clock.conf", SKEWED)
    (out / "srv/hardware").mkdir(parents=True)


def launcher(program: str) -> str:
    """A program of the hardware's library that is called by several names gets the one it was called by."""
    name = ' "$0"' if program in NAMED else ""
    return f'#!/bin/sh\nexec /usr/bin/python3 -ES /usr/lib/hardware/{program}.py{name} "$@"\n'


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
