#!/usr/bin/python
"""A scratch file system striped over local NVMe drives, which never uses a drive with data."""

from __future__ import annotations

DOCUMENTATION = r"""
module: scratch
short_description: Creates RAID 0 over NVMe drives, with XFS
description:
  - Creates an array over all blank NVMe drives and a file system on it, and mounts it at every boot.
  - Refuses, with drive contents, if the number of blank drives differs. Never writes to a drive with a
    file system, a partition table or a part of another array.
  - Reassembles an array of the same name with its data, and keeps a striped file system that is mounted
    there already.
options:
  mount:
    description: Mount point.
    type: path
    required: true
  drives:
    description: Required number of drives; 0 for all blank drives.
    type: int
    default: 0
  devices:
    description: Drives, as C(/dev/nvme2n1); empty for all unused NVMe drives.
    type: list
    elements: path
    default: []
  cache:
    description: Folder that keeps data between jobs; empty for none.
    type: str
    default: ""
  options:
    description: Mount options.
    type: str
    required: true
  name:
    description: Name of the array.
    type: str
    default: scratch
  owner:
    description: Role that owns the lines in /etc/fstab.
    type: str
    required: true
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Stripe the drives
  gpufleet.rack.scratch:
    mount: /raid
    drives: 8
    options: defaults,noatime,nofail
    owner: local_nvme
"""

RETURN = r"""
actions:
  description: Changes, also in check mode, one line each.
  type: list
  returned: always
device:
  description: Device of the file system; empty if check mode would create it.
  type: str
  returned: always
"""

import os
import re
import shutil
import stat
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils import fstab
from ansible_collections.gpufleet.rack.plugins.module_utils.nvme_drives import (
    Drive,
    inspect,
    list_drives,
    numbers_in_use,
    probe,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

CONFIG = Path("/etc/mdadm/mdadm.conf")
TOO_MANY = "There are more of them than local_nvme_drives: list the right ones in local_nvme_devices."
TOO_FEW = (
    "Drives with data are never overwritten: if nothing on them is needed, run `wipefs -a` (and for parts of "
    "arrays `mdadm --stop` and `mdadm --zero-superblock`) on the host, and run again."
)
# Writable by all, like /tmp: only the owner of a file can remove it.
SHARED = 0o1777


def choose(drives: list[Drive], want: int, name: str) -> list[Drive] | None:
    """Drives for a new array; None if the array exists. Raises if the drives do not match."""
    ours = [drive for drive in drives if drive.array == name]
    if ours:
        members = ours[0].members or len(ours)
        if len(ours) != members or want not in (0, members):
            raise RefusalError(
                f"The array {name} is of {members} drives, {len(ours)} of them are there "
                f"({', '.join(drive.path for drive in ours)}), and it has to be of {want or members}. A "
                "striped array that lacks a drive is lost: replace the drive, then `mdadm "
                "--zero-superblock` the others, which takes what is left of the data, and run again. "
                "Nothing was changed."
            )
        return None
    blank = [drive for drive in drives if drive.blank]
    if blank and want in (0, len(blank)):
        return blank
    others = [
        f"{drive.path} has {f'a part of the array {drive.array}' if drive.array else drive.content}"
        for drive in drives
        if not drive.blank and not drive.used
    ]
    wants = f"{want} have to be" if want else "at least one has to be"
    rule = TOO_MANY if len(blank) > want > 0 else TOO_FEW
    raise RefusalError(
        f"{len(blank)} NVMe drives are blank ({', '.join(drive.path for drive in blank) or 'none'}), and "
        f"{wants}; {'; '.join(others) or 'no other drive is unused'}. {rule} Nothing was changed."
    )


def array_device(name: str) -> str:
    """The device of a running array; empty if it is not running."""
    done = fstab.run(["mdadm", "--detail", "--scan"], 30)
    for line in done.stdout.splitlines():
        match = re.search(r"^ARRAY (\S+).*\bname=(?:[^:\s]+:)?(\S+)", line)
        if match and match[2] == name:
            return os.path.realpath(match[1])
    link = Path("/dev/md") / name
    return os.path.realpath(link) if link.exists() else ""


def await_device(name: str) -> str:
    """The device of an array that was just created or assembled."""
    fstab.run(["udevadm", "settle", "--timeout=30"], 40)
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        device = array_device(name)
        if device and Path(device).exists():
            return device
        time.sleep(0.3)
    raise RefusalError(f"The array {name} did not come up within 15 s: see `cat /proc/mdstat` and `dmesg`.")


def make_array(drives: list[Drive], name: str) -> None:
    """Create the array; also over a single drive, so that all nodes are alike."""
    command = ["mdadm", "--create", f"/dev/md/{name}", "--level=0", f"--raid-devices={len(drives)}"]
    command += ["--metadata=1.2", "--chunk=512K", f"--name={name}", "--run"]
    command += ["--force"] if len(drives) == 1 else []
    remedy = (
        "See `dmesg` on the host; drives that it has taken already are freed by `mdadm --zero-superblock`."
    )
    fstab.must(
        [*command, *(drive.path for drive in drives)], f"The array {name} could not be made", remedy, 300
    )


def with_array(text: str, owner: str, line: str) -> str:
    """mdadm's configuration with this array, so that it keeps its name at boot."""
    mark, lines = f"{fstab.MARK}{owner}", text.splitlines()
    if mark in lines:
        at = lines.index(mark)
        lines[at : at + 2] = [mark, line]
    else:
        lines += [mark, line]
    return "".join(f"{item}\n" for item in lines)


def configure_array(device: str, name: str, owner: str) -> None:
    """Record the array, and update the initramfs if there is one."""
    done = fstab.run(["mdadm", "--detail", "--export", device], 30)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    old = CONFIG.read_text() if CONFIG.exists() else ""
    new = with_array(old, owner, f"ARRAY /dev/md/{name} metadata=1.2 UUID={found.get('MD_UUID', '')}")
    if new != old:
        CONFIG.parent.mkdir(exist_ok=True)
        CONFIG.write_text(new)
        if shutil.which("update-initramfs", path="/usr/sbin:/sbin"):
            fstab.must(
                ["update-initramfs", "-u"], "The boot image was not renewed", "Run it on the host.", 600
            )


def make_file_system(device: str) -> None:
    """Create XFS on a blank device; raises for any other."""
    found = probe(device)
    if found.get("TYPE") == "xfs":
        return
    if found:
        raise RefusalError(
            f"{device} has {found.get('TYPE') or found.get('PTTYPE')} on it, and XFS was expected. If "
            f"nothing on it is needed, run `wipefs -a {device}` on the host and run again."
        )
    fstab.must(
        ["mkfs.xfs", "-q", device], f"{device} could not be formatted", "See `dmesg` on the host.", 600
    )


def share(path: Path) -> None:
    """Create a folder that all users can write to."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(SHARED)


def folders_lacking(params: dict[str, Any]) -> list[str]:
    """Folders that are missing or not writable by all."""
    found = []
    for path in [params["mount"], params["cache"]]:
        if path and (not Path(path).is_dir() or stat.S_IMODE(Path(path).stat().st_mode) != SHARED):
            found.append(f"folder {path}")
    return found


def check_mounted(device: str, params: dict[str, Any]) -> None:
    """Refuse another file system type."""
    done = fstab.run(["mdadm", "--detail", "--export", device], 30)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    level, members = found.get("MD_LEVEL", "none"), int(found.get("MD_DEVICES", "0"))
    if level != "raid0" or params["drives"] not in (0, members):
        raise RefusalError(
            f"{device} is mounted on {params['mount']}: an array of level {level} over {members} drives, "
            f"where one of raid0 over {params['drives'] or 'all'} drives has to be. Correct drives in the "
            "fleet file, or unmount it and free its drives. Nothing was changed."
        )


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare and change; the result for Ansible."""
    mount, name = params["mount"], params["name"]
    text, mounted = fstab.read(), fstab.mounted()
    if mount in mounted:
        device = os.path.realpath(mounted[mount][0])
        check_mounted(device, params)
        steps = folders_lacking(params)
        if not check:
            for path in filter(None, (mount, params["cache"])):
                share(Path(path))
        return report(steps, device, text, text)
    paths = params["devices"] or list_drives()
    missing = [path for path in paths if not Path(path).is_block_device()]
    if missing:
        raise RefusalError(
            f"{', '.join(missing)} is not there. Look for it with `nvme list`, or correct local_nvme_devices."
        )
    used = numbers_in_use()
    fresh = choose([inspect(path, used) for path in paths], params["drives"], name)
    steps = [f"array {name} over {', '.join(drive.path for drive in fresh)}", "file system"] if fresh else []
    steps += [
        "line of /etc/fstab",
        f"mount {mount}",
        *([f"folder {params['cache']}"] if params["cache"] else []),
    ]
    if check:
        return report(steps, "", text, text)
    if fresh:
        make_array(fresh, name)
    elif not array_device(name):
        fstab.run(["mdadm", "--assemble", "--scan"], 60)
    device = await_device(name)
    make_file_system(device)
    configure_array(device, name, params["owner"])
    entry = fstab.Mount(f"UUID={probe(device)['UUID']}", mount, "xfs", params["options"])
    fstab.refuse_others(text, params["owner"], [entry])
    new = fstab.with_own(text, params["owner"], [entry])
    if new != text:
        fstab.write(new)
    # By device name: /dev/disk may not list a file system that was just created.
    fstab.mount(entry._replace(source=device), "See `dmesg` on the host.")
    for path in filter(None, (mount, params["cache"])):
        share(Path(path))
    return report(steps, device, text, new)


def report(steps: list[str], device: str, before: str, after: str) -> dict[str, Any]:
    """The result for Ansible."""
    return {
        "changed": bool(steps),
        "actions": steps,
        "device": device,
        "diff": [
            difference("drives", "", "\n".join(steps)),
            difference("/etc/fstab", before, after),
        ],
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "mount": {"type": "path", "required": True},
            "drives": {"type": "int", "default": 0},
            "devices": {"type": "list", "elements": "path", "default": []},
            "cache": {"type": "str", "default": ""},
            "options": {"type": "str", "required": True},
            "name": {"type": "str", "default": "scratch"},
            "owner": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
