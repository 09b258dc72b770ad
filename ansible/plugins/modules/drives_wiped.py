#!/usr/bin/python
"""Wipe the data of a host's NVMe drives, except system drives."""

from __future__ import annotations

DOCUMENTATION = r"""
module: drives_wiped
short_description: Wipes data drives
description:
  - Unmounts the file systems of a role on NVMe drives, stops their arrays, and wipes every NVMe
    drive that nothing else uses. Drives with the system or another mounted file system are
    skipped and reported.
  - C(crypto) and C(block) are erase methods of the drive (nvme format), C(overwrite) writes zeros
    everywhere, C(discard) only marks all blocks as unused. C(auto) is the first supported one of crypto,
    block and overwrite.
  - Refuses unless C(confirm) contains the host name, before any change.
options:
  host:
    description: Host name.
    type: str
    required: true
  confirm:
    description: Host names whose data may be wiped, separated by commas.
    type: str
    required: true
  method:
    description: Erase method.
    type: str
    choices: [auto, crypto, block, discard, overwrite]
    default: auto
  owner:
    description: Role whose mounts are removed from /etc/fstab.
    type: str
    default: local_nvme
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Wipe the drives
  gpufleet.rack.drives_wiped:
    host: dgx001
    confirm: dgx001
"""

RETURN = r"""
drives:
  description: For each wiped drive C(path), C(model), C(serial), C(bytes), C(method), C(seconds).
  type: list
  returned: always
kept:
  description: NVMe drives that were skipped, because the system or a mount is on them.
  type: list
  returned: always
"""

import concurrent.futures
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils import fstab
from ansible_collections.gpufleet.rack.plugins.module_utils.nvme_drives import (
    above,
    list_drives,
    numbers_in_use,
    probe,
    superblock,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

CONFIG = Path("/etc/mdadm/mdadm.conf")
SAMPLE = 1 << 20
# NVM Express base specification, Identify Controller: OACS bit 1 is Format NVM, FNA bit 2 crypto erase.
FORMAT, CRYPTO = 1 << 1, 1 << 2
HOURS = 24 * 3600


def free_mounts(owner: str, check: bool) -> list[str]:
    """Unmount the file systems of the role and remove its lines from /etc/fstab; the paths."""
    text = fstab.read()
    own = fstab.own_lines(text, owner)
    mounted = fstab.mounted()
    if check:
        return [entry.path for entry in own]
    for entry in own:
        if entry.path in mounted:
            fstab.must(
                ["umount", entry.path],
                f"{entry.path} could not be unmounted",
                f"See who uses it with `fuser -vm {entry.path}`; nothing was wiped.",
                120,
            )
    if own:
        fstab.write(fstab.with_own(text, owner, []))
    return [entry.path for entry in own]


def scratch_numbers(owner: str) -> set[int]:
    """Device numbers of the role's mounts, which may be wiped."""
    mounted = fstab.mounted()
    own = [entry.path for entry in fstab.own_lines(fstab.read(), owner)]
    return {Path(path).stat().st_dev for path in own if path in mounted}


def numbers(path: str) -> set[int]:
    """Device numbers of a drive and everything built on it."""
    return {Path(item).stat().st_rdev for item in (path, *above(path)) if Path(item).exists()}


def running_arrays(drives: list[str]) -> list[str]:
    """Running arrays with one of the drives as a member, by the array name on the drive."""
    names = {superblock(path).get("Name", "").split(" ")[0].rpartition(":")[2] for path in drives} - {""}
    if not names:
        return []
    found = []
    for line in fstab.run(["mdadm", "--detail", "--scan"], 30).stdout.splitlines():
        match = re.search(r"^ARRAY (\S+).*\bname=(?:[^:\s]+:)?(\S+)", line)
        if match and match[2] in names:
            found.append(match[1])
    return found


def forget_array(owner: str) -> None:
    """Remove the role's array from mdadm's configuration."""
    if not CONFIG.exists():
        return
    lines = CONFIG.read_text().splitlines()
    mark = f"{fstab.MARK}{owner}"
    if mark in lines:
        at = lines.index(mark)
        CONFIG.write_text("".join(f"{line}\n" for line in lines[:at] + lines[at + 2 :]))


def identity(path: str) -> dict[str, Any]:
    """Model, serial number and size, as known to the kernel."""
    name = Path(path).name
    found: dict[str, Any] = {"path": path}
    for key in ("model", "serial"):
        file = Path("/sys/class/block") / name / "device" / key
        found[key] = file.read_text().strip() if file.exists() else ""
    with Path(path).open("rb") as device:
        found["bytes"] = device.seek(0, os.SEEK_END)
    return found


def abilities(path: str) -> tuple[bool, bool]:
    """Whether the drive supports crypto erase, and format."""
    if shutil.which("nvme") is None:
        return False, False
    done = fstab.run(["nvme", "id-ctrl", re.sub(r"n\d+$", "", path), "-o", "json"], 30)
    try:
        found = json.loads(done.stdout) if done.returncode == 0 else {}
    except ValueError:
        found = {}
    formats = bool(int(found.get("oacs", 0)) & FORMAT)
    return formats and bool(int(found.get("fna", 0)) & CRYPTO), formats


def method_for(path: str, asked: str) -> str:
    """The erase method of a drive. Raises if the requested one is not supported."""
    if asked in ("discard", "overwrite"):
        return asked
    crypto, formats = abilities(path)
    if asked == "auto":
        return "crypto" if crypto else "block" if formats else "overwrite"
    if (asked == "crypto" and not crypto) or (asked == "block" and not formats):
        raise RefusalError(
            f"{path} does not say that it can do {asked} erase (nvme id-ctrl). Use method auto or overwrite; "
            "nothing was wiped."
        )
    return asked


def wipe(path: str, method: str) -> dict[str, Any]:
    """Wipe one drive and verify it."""
    started = time.monotonic()
    remedy = "See `dmesg` on the host. The drive is not clean: destroy it, or run again."
    commands = {
        "crypto": ["nvme", "format", path, "--ses=2", "--force"],
        "block": ["nvme", "format", path, "--ses=1", "--force"],
        "discard": ["blkdiscard", "--force", path],
        "overwrite": ["blkdiscard", "--zeroout", "--force", path],
    }
    fstab.must(["wipefs", "--all", "--force", path], f"{path} could not be cleared", remedy, 120)
    fstab.must(commands[method], f"{path} could not be wiped ({method})", remedy, HOURS)
    left = probe(path)
    if left:
        raise RefusalError(
            f"{path} still has {left.get('TYPE') or left.get('PTTYPE')} on it after {method}. {remedy}"
        )
    if method in ("discard", "overwrite"):
        read_zeros(path, method, remedy)
    return {"method": method, "seconds": round(time.monotonic() - started, 1)}


def read_zeros(path: str, method: str, remedy: str) -> None:
    """Read samples of the drive, which must be zeros: start, end, and places between."""
    with Path(path).open("rb", buffering=0) as device:
        size = device.seek(0, os.SEEK_END)
        os.posix_fadvise(device.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for part in range(17):
            device.seek(max(0, (size - SAMPLE) * part // 16))
            if any(device.read(SAMPLE)):
                raise RefusalError(f"{path} still has data on it after {method}. {remedy}")


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Release the drives and wipe them."""
    if params["host"] not in [name.strip() for name in params["confirm"].split(",")]:
        raise RefusalError(
            f"confirm is {params['confirm']!r} and the host is {params['host']}: its data is only wiped when "
            "it is named. Nothing was changed."
        )
    used = numbers_in_use() - scratch_numbers(params["owner"])
    paths = list_drives()
    kept = [path for path in paths if numbers(path) & used]
    chosen = [path for path in paths if path not in kept]
    methods = {path: method_for(path, params["method"]) for path in chosen}
    drives = [identity(path) | {"method": methods[path]} for path in chosen]
    mounts = free_mounts(params["owner"], check)
    lines = [f"{item['path']} {item['serial']} {item['method']}" for item in drives]
    result = {
        "changed": bool(drives or mounts),
        "kept": kept,
        "drives": drives,
        "diff": [difference("drives", "".join(f"{line}\n" for line in lines), "")],
    }
    if check:
        return result
    for array in running_arrays(chosen):
        fstab.must(
            ["mdadm", "--stop", array], f"The array {array} could not be stopped", "See /proc/mdstat.", 60
        )
    for path in chosen:
        if superblock(path):
            fstab.must(["mdadm", "--zero-superblock", path], f"{path} is still of an array", "See dmesg.", 60)
    forget_array(params["owner"])
    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        done = list(pool.map(lambda path: wipe(path, methods[path]), chosen))
    result["drives"] = [item | each for item, each in zip(drives, done, strict=True)]
    return result


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "confirm": {"type": "str", "required": True},
            "method": {
                "type": "str",
                "choices": ["auto", "crypto", "block", "discard", "overwrite"],
                "default": "auto",
            },
            "owner": {"type": "str", "default": "local_nvme"},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
