"""Versions of installed packages, compared with the lock of the software channel.

Versions that programs report (driver, Fabric Manager, NCCL, container toolkit, containerd, Kubernetes,
charts) are compared by the checks of their roles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.racks.verify.measurements import Reading, RoleMeasurements
from gpufleet.racks.verify.result import Result

ROLE = "versions"
"""The name under which the results are shown, as a role's."""

NVIDIA_HOSTS = ("nvidia.com", "nvidia.github.io", "mellanox.com")


class LockedSoftware(Struct, frozen=True):
    """Software of the lock's `field`; `packages` is a pattern of names.

    `role` installs the exact version: another one fails. Without a role another version is a warning with
    `remedy`, in which {version} is the lock's. `last` is whether packages have only its part
    after the hyphen.
    """

    title: str
    field: str
    packages: str
    role: str = ""
    remedy: str = ""
    last: bool = False


LOCKED_SOFTWARE = (
    LockedSoftware(
        "Slurm",
        "slurm",
        r"slurm(ctld|d|dbd|-client|-smd.*)",
        remedy="`gpufleet plan` shows where Slurm comes from. To run {version}, add its packages to "
        "`package_mirror`, then gpufleet operate <env> upgrade_slurm",
    ),
    LockedSoftware("DCGM", "dcgm", r"datacenter-gpu-manager-\d.*", role="dcgm"),
    LockedSoftware(
        "DCGM exporter", "dcgm_exporter", r"datacenter-gpu-manager-exporter", role="dcgm", last=True
    ),
    LockedSoftware("DOCA-OFED", "doca_ofed", r"doca-ofed", role="rdma"),
    LockedSoftware("GDRCopy", "gdrcopy", r"libgdrapi", role="gpudirect"),
    LockedSoftware("Helm", "helm", r"helm", role="kubernetes_control_plane"),
    LockedSoftware(
        "CUDA toolkit",
        "cuda",
        r"cuda-toolkit-\d+-\d+",
        remedy="no role installs it: install {version}, unless programs need this one",
    ),
)


class PackageVersion(NamedTuple):
    """The version of a package, and the repositories that have it; none for a package from a file."""

    version: str
    repositories: tuple[str, ...]


def versions(found: RoleMeasurements) -> Iterator[Result]:
    """Each installed component has the lock's version. Nothing without a lock in the inventory."""
    lock: Mapping[str, object] = found.values.get("gpufleet_software") or {}
    mirror = str(found.values.get("base_package_mirror") or "")
    for each in LOCKED_SOFTWARE if lock else ():
        wanted = str(lock[each.field])
        wanted = wanted.rpartition("-")[2] if each.last else wanted
        remedy = f"gpufleet configure <env> --only {each.role} --limit {found.host}"
        result = found.expect(
            each.title,
            "versions",
            partial(_compare, each, wanted, mirror),
            expected=wanted,
            remedy=remedy if each.role else each.remedy.format(version=wanted),
            wrong="fail" if each.role or "base_versions" not in found.found else "warn",
        )
        yield replace(result, role=ROLE)


def _compare(software: LockedSoftware, wanted: str, mirror: str, text: str) -> Reading:
    packages = {
        name: there for name, there in parse_policy(text).items() if re.fullmatch(software.packages, name)
    }
    if not packages:
        return Reading("not installed")
    measured = ", ".join(sorted({upstream(there.version, wanted) for there in packages.values()}))
    wrong = {there for there in packages.values() if upstream(there.version, wanted) != wanted}
    if not wrong:
        return Reading(measured)
    numbers = " and ".join(sorted({upstream(there.version, wanted) for there in wrong}))
    sources = " and ".join(sorted({source_of(there.repositories, mirror) for there in wrong}))
    return Reading(measured, f"{numbers} instead of {wanted}, from {sources}")


def parse_policy(text: str) -> dict[str, PackageVersion]:
    """Return the installed packages in the output of `apt-cache policy`."""
    found: dict[str, PackageVersion] = {}
    name, here = "", False
    for line in text.splitlines():
        if line[:1].strip():
            name, here = line.rstrip(":"), False
        elif line.startswith(" *** "):
            here = True
            found[name] = PackageVersion(line.split()[1], ())
        elif re.match(r" {5}\S", line):
            here = False
        elif here and "://" in line:
            words = line.split()[1:]
            where = " ".join(word for word in words[:2] if word != "Packages")
            found[name] = PackageVersion(found[name].version, (*found[name].repositories, where))
    return found


def upstream(version: str, wanted: str) -> str:
    """Return a package's version as exact as the lock's: `1:25.05.8-2` is 25.05.8 for a lock of 25.05.7."""
    bare = version.rpartition(":")[2]
    if re.match(rf"{re.escape(wanted)}([-+~]|$)", bare):
        return wanted
    return bare if "-" in wanted else re.split(r"[-+]", bare)[0]


def source_of(repositories: tuple[str, ...], mirror: str) -> str:
    """Return where a package comes from, with the address of the repository."""
    if not repositories:
        return "a file: no repository of the host has it"
    address = repositories[0].partition(" ")[0]
    host = urlsplit(address).hostname or ""
    if mirror and address.startswith(f"{mirror.rstrip('/')}/vendor"):
        kind = "the site mirror"
    elif any(host == name or host.endswith(f".{name}") for name in NVIDIA_HOSTS):
        kind = "NVIDIA's repository"
    elif re.search(r"/(debian|ubuntu)\S* \S+/(main|universe)$", repositories[0]):
        kind = "the distribution"
    else:
        kind = "another repository"
    return f"{kind} ({address})"
