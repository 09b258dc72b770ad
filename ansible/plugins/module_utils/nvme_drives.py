"""NVMe drives of this host and their contents."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

from ansible_collections.gpufleet.rack.plugins.module_utils import fstab
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError


class Drive(NamedTuple):
    """Contents of a drive: `array` is the name of its array, `content` anything else."""

    path: str
    used: bool = False
    array: str = ""
    members: int = 0
    content: str = ""

    @property
    def blank(self) -> bool:
        """Whether the drive is empty."""
        return not (self.used or self.array or self.content)


def natural(path: str) -> list[int]:
    """Sort nvme10n1 after nvme9n1."""
    return [int(number) for number in re.findall(r"\d+", path)]


def list_drives() -> list[str]:
    """Block devices of NVMe namespaces."""
    found = [str(path) for path in Path("/dev").iterdir() if re.fullmatch(r"nvme\d+n\d+", path.name)]
    return sorted((path for path in found if stat.S_ISBLK(Path(path).stat().st_mode)), key=natural)


def numbers_in_use() -> set[int]:
    """Device numbers of mounts and swap."""
    found = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        major, minor = line.split()[2].split(":")
        found.add(os.makedev(int(major), int(minor)))
    for line in Path("/proc/swaps").read_text().splitlines()[1:]:
        path = line.split()[0]
        if Path(path).is_block_device():
            found.add(Path(path).stat().st_rdev)
    return found


def above(path: str) -> list[str]:
    """Partitions of a drive, and arrays and volumes built from them."""
    folder = Path("/sys/class/block") / Path(path).name
    if not folder.is_dir():
        return []
    names = [item.name for item in folder.iterdir() if (item / "partition").exists()]
    names += [item.name for item in (folder / "holders").iterdir()] if (folder / "holders").is_dir() else []
    return [found for name in names for found in (f"/dev/{name}", *above(f"/dev/{name}"))]


def probe(path: str) -> dict[str, str]:
    """What blkid finds on a device, without its cache."""
    done = fstab.run(["blkid", "-p", "-o", "export", path], 30)
    if done.returncode == 2:
        return {}
    if done.returncode == 8:
        return {"TYPE": "several things at once"}
    if done.returncode:
        raise RefusalError(
            f"{path} cannot be read: blkid ended with code {done.returncode} and printed "
            f"{done.stderr.strip()}. Replace the drive, or leave it out (local_nvme_devices). Nothing was "
            "changed."
        )
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def superblock(path: str) -> dict[str, str]:
    """Name and members of the array of a drive, from mdadm if it is installed."""
    if shutil.which("mdadm", path="/usr/sbin:/sbin") is None:
        return {}
    done = fstab.run(["mdadm", "--examine", path], 30)
    if done.returncode:
        return {}
    pairs = (line.partition(" : ")[::2] for line in done.stdout.splitlines() if " : " in line)
    return {key.strip(): value.strip() for key, value in pairs}


def inspect(path: str, used: set[int]) -> Drive:
    """Inspect one drive."""
    numbers = {Path(item).stat().st_rdev for item in [path, *above(path)] if Path(item).exists()}
    busy = bool(numbers & used)
    found = {} if busy else probe(path)
    array = {} if busy else superblock(path)
    if array or found.get("TYPE") == "linux_raid_member":
        # "host:name  (local to host host)"
        name = (array.get("Name") or found.get("LABEL") or "(unnamed)").split()[0]
        return Drive(path, busy, name.rpartition(":")[2], int(array.get("Raid Devices", "0")))
    words = [f"{found[key]} ({key.lower()})" for key in ("TYPE", "PTTYPE") if key in found]
    return Drive(path, busy, content=" and ".join(words))
