"""Control groups of a rack: one for the rack, and one in it for each host.

systemd-nspawn with --register=no creates none. Without them, hosts on cgroup v1 would share one tree: the
systemd of each uses the root of the named hierarchy, finds the others' processes in `system.slice` and ends
those that are not its own. The groups also identify the rack's processes.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from gpufleet.errors import CloudError
from gpufleet.lab.rack.layout import kill

OWN = Path("/proc/self/cgroup")
# A busy machine takes its time to end some hundred processes.
_END_S = 120.0


def own_groups(name: str, root: Path = Path("/sys/fs/cgroup")) -> tuple[str, ...]:
    """Return the paths of groups called `name`: below the caller's own, in every mounted hierarchy."""
    found = []
    for line in OWN.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        names = controllers.removeprefix("name=").split(",") if controllers else ["unified", ""]
        for mounted in (root / item if item else root for item in (*names, controllers)):
            # cgroup v2 is mounted at the root itself, or at `unified` beside the hierarchies of v1.
            parent = mounted / path.lstrip("/")
            if (mounted / "cgroup.procs").is_file() and parent.is_dir():
                found.append(str(parent / name))
                break
    return tuple(found)


def make(group: Path) -> None:
    """Create a group that can receive processes."""
    group.mkdir(exist_ok=True)
    # A new cpuset of v1 has no processor and no memory, and rejects processes until it has.
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = group / name
        if file.is_file() and not (group / "cgroup.controllers").exists() and not file.read_text().strip():
            file.write_text((group.parent / name).read_text())


def processes(groups: tuple[str, ...]) -> set[int]:
    """Return the processes in the groups and in all groups below."""
    found: set[int] = set()
    for group in groups:
        for folder in _below(group):
            with contextlib.suppress(OSError):  # a group that is removed while it is read
                lines = (folder / "cgroup.procs").read_text().split()
                found.update(int(line) for line in lines if line != "0")
    return found


def end(groups: tuple[str, ...]) -> None:
    """End every process in the groups and remove them. Raises CloudError if one does not end."""
    deadline = time.monotonic() + _END_S
    while True:
        left = processes(groups)
        for pid in left:
            kill(pid)
        if not left and remove(groups):
            return
        if time.monotonic() > deadline:
            what = f"processes {sorted(left)}" if left else f"control groups {', '.join(groups)}"
            raise CloudError(f"{what} of the rack did not end within {_END_S:.0f} s")
        time.sleep(0.02)


def remove(groups: tuple[str, ...]) -> bool:
    """Remove groups without processes, deepest first; return whether all are removed."""
    for group in groups:
        for folder in _below(group):
            with contextlib.suppress(OSError):  # busy for a moment while processes end
                folder.rmdir()
    return not any(Path(group).exists() for group in groups)


def _below(group: str) -> list[Path]:
    """Return a group and all groups below it, deepest first. Unlike rglob, it skips vanishing ones."""
    return [Path(folder) for folder, _, _ in os.walk(group, topdown=False)]
