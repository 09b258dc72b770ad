"""Lines of /etc/fstab owned by roles, and current mounts."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

FSTAB = Path("/etc/fstab")
MOUNTS = Path("/proc/self/mounts")
MARK = "# gpufleet: "


class Mount(NamedTuple):
    """One line of /etc/fstab."""

    source: str
    path: str
    fstype: str
    options: str

    def line(self) -> str:
        """The text of the line."""
        return f"{self.source} {self.path} {self.fstype} {self.options} 0 0"

    def is_of(self, source: str) -> bool:
        """Whether the `source` of the kernel or of another line is the same file system.

        WEKA's client shows the file system with one backend or without any; IBM Storage
        Scale writes it with and without /dev/.
        """
        if self.fstype in ("wekafs", "gpfs"):
            return self.source.rpartition("/")[2] == source.rpartition("/")[2]
        return self.source == source


def parse(text: str) -> list[Mount]:
    """All entries; invalid lines are skipped."""
    entries = []
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if len(words) >= 4:
            entries.append(Mount(*words[:4]))
    return entries


def own_lines(text: str, owner: str) -> list[Mount]:
    """Entries written by `owner`: each has its marker on the line above."""
    lines = text.splitlines()
    return [
        mount for mark, line in itertools.pairwise(lines) if mark == f"{MARK}{owner}" for mount in parse(line)
    ]


def with_own(text: str, owner: str, mounts: list[Mount]) -> str:
    """The text with exactly these entries of `owner` and all other lines."""
    kept, lines, at = [], text.splitlines(), 0
    while at < len(lines):
        if lines[at] == f"{MARK}{owner}":
            at += 2
            continue
        kept.append(lines[at])
        at += 1
    for mount in mounts:
        kept += [f"{MARK}{owner}", mount.line()]
    return "".join(f"{line}\n" for line in kept)


def refuse_others(text: str, owner: str, mounts: list[Mount]) -> None:
    """Refuse paths that another line mounts."""
    theirs = {mount.path.rstrip("/"): mount for mount in parse(with_own(text, owner, []))}
    for mount in mounts:
        other = theirs.get(mount.path.rstrip("/"))
        if other is not None:
            raise RefusalError(
                f"/etc/fstab has {other.source} on {mount.path} already, and {mount.source} is to be "
                "mounted there. One path has one file system: take that line out of /etc/fstab, or choose "
                "another path in the fleet file. Nothing was changed."
            )


def kept_by_others(text: str, owner: str, mounts: list[Mount]) -> list[Mount]:
    """Mounts that need no line: IBM Storage Scale writes one for each file system of the cluster."""
    theirs = parse(with_own(text, owner, []))
    return [
        mount
        for mount in mounts
        if mount.fstype == "gpfs"
        and any(
            other.fstype == "gpfs" and other.path == mount.path and mount.is_of(other.source)
            for other in theirs
        )
    ]


def read() -> str:
    """The text of /etc/fstab, empty if it does not exist."""
    return FSTAB.read_text() if FSTAB.exists() else ""


def write(text: str) -> None:
    """Replace /etc/fstab atomically, and reload systemd."""
    handle, name = tempfile.mkstemp(prefix=".fstab.", dir=FSTAB.parent)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    Path(name).chmod(0o644)
    Path(name).replace(FSTAB)
    run(["systemctl", "daemon-reload"])


def mounted() -> dict[str, tuple[str, str]]:
    """Source and type of mounts by path; the topmost one counts."""
    found = {}
    for line in MOUNTS.read_text().splitlines():
        source, path, fstype = line.split()[:3]
        found[unescape(path)] = (unescape(source), fstype)
    return found


def unescape(text: str) -> str:
    """Decode octal escapes of the kernel, for example for spaces."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text


def run(command: list[str], timeout_s: int = 120) -> subprocess.CompletedProcess[str]:
    """Run a command; exit code 124 on timeout."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no answer within {timeout_s} s")


def must(command: list[str], what: str, remedy: str, timeout_s: int = 120) -> None:
    """Run a command that must succeed; raises with its output."""
    done = run(command, timeout_s)
    if done.returncode:
        output = (done.stderr.strip() or done.stdout.strip() or "nothing")[-500:]
        raise RefusalError(
            f"{what}: {command[0]} ended with code {done.returncode} and printed: {output} {remedy}"
        )


def mount(entry: Mount, remedy: str, timeout_s: int = 120) -> None:
    """Mount and verify: with `nofail`, mount(8) succeeds for a missing device."""
    Path(entry.path).mkdir(parents=True, exist_ok=True)
    what = f"{entry.source} could not be mounted on {entry.path}"
    must(
        ["mount", "-t", entry.fstype, "-o", entry.options, entry.source, entry.path], what, remedy, timeout_s
    )
    if entry.path not in mounted():
        raise RefusalError(f"{what}: mount reported success, but nothing is mounted there. {remedy}")
