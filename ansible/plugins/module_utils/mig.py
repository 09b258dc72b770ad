#!/usr/bin/python3
"""Create MIG instances on the GPUs of this host, and list them.

The module `gpufleet.rack.mig` uses it within Ansible, and `gpufleet-mig.service` at every boot: instances
do not survive a reboot, and from Hopper on MIG mode does not either (NVIDIA MIG User Guide,
Getting Started with MIG, Enable MIG Mode). Standard library only.

    mig apply    create the instances of /etc/gpufleet/mig.json
    mig show     list the instances, as JSON
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIGURATION = Path("/etc/gpufleet/mig.json")
STATE = Path("/run/gpufleet/mig.json")
MINORS = Path("/proc/driver/nvidia-caps/mig-minors")
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")
DEVICES = Path("/dev")

NO_INSTANCES = 6
"""Exit code of nvidia-smi if there is nothing to list."""
INFOROM_CORRUPT = 14
"""Exit code of nvidia-smi if an InfoROM is corrupt; its output is correct (nvidia-smi(1))."""

PROFILE = re.compile(r"^\|\s+(\d+)\s+MIG (\S+)\s+(\d+)\s+(\d+)/(\d+)\s")
INSTANCE = re.compile(r"^\|\s+(\d+)\s+MIG (\S+)\s+(\d+)\s+(\d+)\s+(\d+):(\d+)\s")
COMPUTE = re.compile(r"^\|\s+(\d+)\s+(\d+)\s+MIG (\S+)\s+(\d+)\*?\s+(\d+)\s+(\d+):(\d+)\s")
MINOR = re.compile(r"^gpu(\d+)/gi(\d+)/(?:ci(\d+)/)?access (\d+)$")

Layout = Mapping[str, Mapping[str, int]]
"""GPU index -> profile -> number of instances. Other GPUs are whole."""


class MigError(Exception):
    """An error with its remedy."""


def smi(*words: str, empty: bool = False) -> str:
    """The output of nvidia-smi; with `empty`, an empty text if there is nothing to list. Raises MigError."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *words], capture_output=True, text=True, check=False, timeout=120
        )
    except OSError as error:
        raise MigError(f"nvidia-smi does not run ({error}). Install the driver first.") from None
    except subprocess.TimeoutExpired:
        raise MigError(f"nvidia-smi {' '.join(words)} took more than 120 s. See dmesg on the host.") from None
    if done.returncode in (0, INFOROM_CORRUPT):
        return done.stdout
    if empty and done.returncode == NO_INSTANCES:
        return ""
    output = " ".join((done.stdout + done.stderr).split())
    raise MigError(f"nvidia-smi {' '.join(words)} failed with code {done.returncode}: {output}")


def gpus() -> list[dict[str, Any]]:
    """`{index, minor, uuid, enabled, pending}` of each GPU, in the order of the driver."""
    text = smi("--query-gpu=index,uuid,mig.mode.current,mig.mode.pending", "--format=csv,noheader")
    numbers = minors_of_gpus()
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        # Below the rows come warnings, as of a corrupt InfoROM.
        if len(cells) != 4 or not cells[0].isdigit():
            continue
        index, uuid, current, pending = cells
        found.append(
            {
                "index": index,
                "minor": numbers.get(uuid, int(index)),
                "uuid": uuid,
                "able": current in ("Enabled", "Disabled"),
                "enabled": current == "Enabled",
                "pending": pending == "Enabled",
            }
        )
    return found


def minors_of_gpus() -> dict[str, int]:
    """UUID -> device file number, from /proc of the driver; missing if the driver does not report it."""
    found = {}
    for path in Path("/proc/driver/nvidia/gpus").glob("*/information"):
        fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        if "GPU UUID" in fields and "Device Minor" in fields:
            found[fields["GPU UUID"].strip()] = int(fields["Device Minor"])
    return found


def profiles(index: str) -> dict[str, int]:
    """Profile -> its ID for this GPU. The names differ between driver branches.

    Driver 580 lists them in any mode. Empty if a driver lists them in MIG mode only.
    """
    lines = smi("mig", "-i", index, "-lgip", empty=True).splitlines()
    return {match[2]: int(match[3]) for match in map(PROFILE.match, lines) if match}


def instances(index: str) -> list[dict[str, Any]]:
    """`{profile, gi, ci}` of the instances of the GPU; `ci` is None without a compute instance."""
    compute = {
        int(match[2]): int(match[5])
        for match in map(COMPUTE.match, smi("mig", "-i", index, "-lci", empty=True).splitlines())
        if match
    }
    return [
        {"profile": match[2], "gi": int(match[4]), "ci": compute.get(int(match[4])), "start": int(match[5])}
        for match in map(INSTANCE.match, smi("mig", "-i", index, "-lgi", empty=True).splitlines())
        if match
    ]


def state() -> dict[str, list[dict[str, Any]]]:
    """GPU index -> its instances, for GPUs in MIG mode. Raises MigError."""
    return {gpu["index"]: instances(gpu["index"]) for gpu in gpus() if gpu["enabled"]}


def differing(layout: Layout, found: Mapping[str, list[dict[str, Any]]], indexes: list[str]) -> list[str]:
    """GPUs that differ from `layout`. An instance without a compute instance does not count."""
    return [
        index
        for index in indexes
        if (index in found) != (index in layout)
        or Counter(item["profile"] for item in found.get(index, []) if item["ci"] is not None)
        != Counter(layout.get(index, {}))
        or any(item["ci"] is None for item in found.get(index, []))
    ]


def refuse_unknown(layout: Layout, known: list[dict[str, Any]]) -> None:
    """Raise MigError for GPUs that do not exist or do not support MIG."""
    by_index = {gpu["index"]: gpu for gpu in known}
    for index in layout:
        if index not in by_index:
            raise MigError(
                f"There is no GPU {index}: the driver finds {len(known)}. See the node's health check, or "
                "correct `mig` of the site."
            )
        if not by_index[index]["able"]:
            raise MigError(f"GPU {index} cannot be divided (MIG mode is N/A). Take it out of `mig`.")


def busy(chosen: list[dict[str, Any]]) -> list[str]:
    """Processes that use the chosen GPUs, as `pid name`."""
    text = smi("--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader", empty=True)
    uuids = {gpu["uuid"] for gpu in chosen}
    rows = [[cell.strip() for cell in line.split(",", 2)] for line in text.splitlines()]
    rows = [row for row in rows if len(row) == 3]
    # For a GPU in MIG mode nvidia-smi lists the UUID of the instance: then any process counts.
    return [f"{row[1]} {row[2]}" for row in rows if row[0] in uuids or row[0].startswith("MIG-")]


def apply(layout: Layout) -> list[str]:
    """Create differing instances; the changed GPUs. Others are not touched. Raises MigError."""
    known = gpus()
    refuse_unknown(layout, known)
    found = {gpu["index"]: instances(gpu["index"]) for gpu in known if gpu["enabled"]}
    wrong = differing(layout, found, [gpu["index"] for gpu in known])
    chosen = [gpu for gpu in known if gpu["index"] in wrong]
    if chosen and (using := busy(chosen)):
        raise MigError(
            f"GPUs {', '.join(wrong)} would get new MIG instances, and processes use them: "
            f"{'; '.join(using[:5])}. "
            "Drain the node and wait until they have ended."
        )
    for gpu in chosen:
        divide(gpu, layout.get(gpu["index"], {}), found.get(gpu["index"], []))
    after = state()
    left = differing(layout, after, [gpu["index"] for gpu in known])
    if left:
        raise MigError(f"GPUs {', '.join(left)} are not divided as asked: they have {json.dumps(after)}.")
    write_state(described(known, after))
    return wrong


def divide(gpu: Mapping[str, Any], wanted: Mapping[str, int], there: list[dict[str, Any]]) -> None:
    """Recreate the instances of one GPU."""
    index = gpu["index"]
    # Check before anything is destroyed.
    numbers = listed(index, wanted)
    if any(item["ci"] is not None for item in there):
        smi("mig", "-i", index, "-dci")
    if there:
        smi("mig", "-i", index, "-dgi")
    if gpu["enabled"] != bool(wanted):
        set_mode(index, bool(wanted))
    if not wanted:
        return
    numbers = numbers or numbered(index, wanted)
    # The largest first: it has the fewest placements. Profiles are numbered from the largest on.
    ordered = sorted((numbers[name] for name, count in wanted.items() for _ in range(count)))
    smi("mig", "-i", index, "-cgi", ",".join(map(str, ordered)), "-C")


def numbered(index: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """The IDs of all profiles. Raises MigError if the driver lacks a wanted one."""
    numbers = profiles(index)
    missing = [name for name in wanted if name not in numbers]
    if missing:
        raise MigError(
            f"GPU {index} has no profile {', '.join(missing)} with this driver; it has {', '.join(numbers)}. "
            "Correct `mig` of the site."
        )
    return numbers


def listed(index: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """Like `numbered`; empty if the driver lists no profile of this GPU before it is in MIG mode."""
    return numbered(index, wanted) if wanted and profiles(index) else {}


def set_mode(index: str, on: bool) -> None:
    """Enable or disable MIG mode. It stays pending on a GPU in use until a reset."""
    output = smi("-i", index, "-mig", "1" if on else "0")
    gpu = next(item for item in gpus() if item["index"] == index)
    if gpu["enabled"] != on:
        raise MigError(
            f"GPU {index} does not take MIG mode {'on' if on else 'off'} while something has it open: "
            f"{' '.join(output.split())} Stop what monitors GPUs (nvidia-dcgm, nvsm, a device plugin of "
            "Kubernetes), or reboot the node."
        )


def described(known: list[dict[str, Any]], found: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """`{gpu, profile, files}` of every instance; a process needs to open `files` to use it."""
    numbers: dict[tuple[int, int, int | None], int] = {}
    if MINORS.exists():
        for match in map(MINOR.match, MINORS.read_text().splitlines()):
            if match:
                compute = None if match[3] is None else int(match[3])
                numbers[int(match[1]), int(match[2]), compute] = int(match[4])
    entries = []
    for gpu in known:
        for item in sorted(found.get(gpu["index"], []), key=lambda each: each["start"]):
            files = [f"/dev/nvidia{gpu['minor']}"]
            for compute in (None, item["ci"]):
                number = numbers.get((gpu["minor"], item["gi"], compute))
                if number is None:
                    raise MigError(f"{MINORS} lists no instance {item['gi']} of GPU {gpu['minor']}.")
                files.append(f"/dev/nvidia-caps/nvidia-cap{number}")
            entries.append({"gpu": int(gpu["index"]), "profile": item["profile"], "files": files})
            make_devices(gpu["minor"], item)
    return entries


def make_devices(minor: int, item: Mapping[str, Any]) -> None:
    """Create device files with the helper of the driver; newer drivers create them themselves."""
    program = shutil.which("nvidia-modprobe")
    folder = CAPABILITIES / f"gpu{minor}/mig/gi{item['gi']}"
    for path in (folder / "access", folder / f"ci{item['ci']}/access"):
        if program and path.exists():
            subprocess.run([program, "-f", str(path)], check=False, capture_output=True, timeout=60)


def write_state(entries: list[dict[str, Any]]) -> None:
    """Save the layout until the next boot, for facts and for `mig show`."""
    STATE.parent.mkdir(parents=True, exist_ok=True)
    new = STATE.with_suffix(".new")
    new.write_text(json.dumps(entries, indent=1) + "\n")
    new.chmod(0o644)
    new.replace(STATE)


def read_state(path: Path = STATE) -> list[dict[str, Any]]:
    """The saved layout; empty without one."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    return found if isinstance(found, list) else []


def main(arguments: list[str]) -> int:
    """Entry point on the host."""
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        if arguments == ["apply"]:
            changed = apply(json.loads(CONFIGURATION.read_text()))
            message = (
                f"new MIG instances: {', '.join(changed)}" if changed else "all GPUs are divided as asked"
            )
            sys.stdout.write(f"{message}\n")
        elif arguments == ["show"]:
            sys.stdout.write(json.dumps(described(gpus(), state())) + "\n")
        else:
            sys.stderr.write("usage: mig apply|show\n")
            return 2
    except (MigError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
