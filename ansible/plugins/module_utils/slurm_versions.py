"""Slurm versions: supported upgrades, and installed packages."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError

UPSTREAM = re.compile(r"(?:\d+:)?(\d{2}\.\d{2})(?:\.(\d+))?")
# Source packages of the distributions and of SchedMD's own packaging.
SOURCES = {"slurm-wlm", "slurm-smd", "slurm-llnl"}
Upgrades = Mapping[str, Sequence[str]]


class Version(NamedTuple):
    """A version of Slurm: its major release (`25.05`) and maintenance number."""

    release: str
    number: int

    def __str__(self) -> str:
        return f"{self.release}.{self.number}"


class Package(NamedTuple):
    """An installed Slurm package: its dpkg version, and whether dpkg has finished with it."""

    name: str
    version: str
    whole: bool = True


def upstream(text: str) -> Version | None:
    """The Slurm version in a package version (`22.05.8-4+deb12u3`); None for other text."""
    found = UPSTREAM.match(text.strip())
    return Version(found[1], int(found[2] or 0)) if found else None


def wanted(text: str) -> Version:
    """Parse a requested version with all three numbers; raises a refusal for other text."""
    if not re.fullmatch(r"\d{2}\.\d{2}\.\d+", text):
        raise RefusalError(
            f"{text!r} is no version of Slurm: it has three numbers, as in 25.05.8. Correct the option "
            f"version, or "
            "the software channel."
        )
    release, _, number = text.rpartition(".")
    return Version(release, int(number))


def steps(old: str, new: str, upgrades: Upgrades) -> list[str]:
    """The shortest chain of releases to another one, including it; empty if there is none."""
    ways = [[old]]
    seen = {old}
    while ways:
        way = ways.pop(0)
        if way[-1] == new:
            return way[1:]
        following = sorted((each for each, olds in upgrades.items() if way[-1] in olds), reverse=True)
        ways += [[*way, each] for each in following if each not in seen]
        seen.update(following)
    return []


def judge(old: Version, new: Version, upgrades: Upgrades, what: str = "Slurm") -> None:
    """Refuse an upgrade that Slurm's daemons do not support.

    `upgrades` maps a release to those it can upgrade from (SchedMD's upgrade guide, gpufleet's catalog).
    """
    if new < old:
        raise RefusalError(
            f"{what} is {old} and {new} is older. Going back is not supported once a daemon of the newer "
            f"version has "
            "run: it has changed the database and the state. Restore a backup that was made before."
        )
    if new.release == old.release:
        return
    if new.release not in upgrades:
        raise RefusalError(
            f"gpufleet does not know from which releases Slurm {new.release} takes over; it knows "
            f"{', '.join(sorted(upgrades))}. Choose one of them."
        )
    if old.release in upgrades[new.release]:
        return
    way = steps(old.release, new.release, upgrades)
    remedy = f"Go in steps: {', then '.join(way)}." if way else "There is no way in steps, either."
    raise RefusalError(
        f"{what} is {old}, and Slurm {new.release} takes over from {', '.join(upgrades[new.release])} "
        f"only: jobs and "
        f"their accounting would be lost. {remedy}"
    )


def installed() -> list[Package]:
    """The installed Slurm packages."""
    form = "${db:Status-Abbrev}\t${Package}\t${source:Package}\t${Version}\n"
    text = subprocess.run(
        ["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    found = []
    for line in text.splitlines():
        state, name, source, version = line.split("\t")
        if state[1] not in "nc" and source in SOURCES and upstream(version):
            found.append(Package(name, version, state[1:].strip() == "i"))
    return found


def version_here(packages: Sequence[Package]) -> Version:
    """The oldest version among packages: an upgrade is incomplete while one is old.

    A library with the release in its name does not count: it may stay beside its successor.
    """
    versions = [
        version
        for each in packages
        if not each.name.startswith("libslurm") and (version := upstream(each.version))
    ]
    if not versions:
        raise RefusalError(
            "The host has no package of Slurm. Run `gpufleet configure` for it, or leave it out with --limit."
        )
    return min(versions)
