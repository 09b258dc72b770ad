"""Mount points: where nodes see file systems, apart from each other and from the system's own."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check
from gpufleet.plan.storage import default_mount

SYSTEM_TREES = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
"""Nothing is mounted on or below these: the system would not boot or lose what it runs."""

SYSTEM_FOLDERS = ("/", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/lib", "/var/log", "/var/tmp")  # noqa: S108
"""Nothing is mounted on these, since it would hide what is in them; below is another matter."""

NODE_STATE = ("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/docker", "/var/spool", "/var/run")
"""State of a node's own services: shared between nodes, it destroys all of them."""

HOMES = ("/home",)


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount point where it is declared; `written` is False for one that follows from the name."""

    path: SpecPath
    site: str
    name: str
    point: str
    written: bool


def mounts(fleet: Fleet) -> Iterator[Mount]:
    """All mount points of a fleet."""
    for path, site, item in fleet.storage():
        if item.lustre is not None:
            written = item.mount is not None
            point = item.mount or default_mount(item.name)
            yield Mount((*path, "mount"), site.site, item.name, point, written)
    for path, rack_site in fleet.onprem():
        for index, store in enumerate(rack_site.storage):
            where = (*path, "storage", index, "mount")
            yield Mount(where, rack_site.site, store.name, store.mount, True)
        if rack_site.local_nvme is not None:
            where = (*path, "local_nvme", "mount")
            yield Mount(where, rack_site.site, "local_nvme", rack_site.local_nvme.mount, True)


@check("mount-path")
def mount_path(fleet: Fleet) -> Iterator[FieldFinding]:
    """A mount point is in its plain form, so that two spellings of one path are not taken for two."""
    for mount in mounts(fleet):
        plain = posixpath.normpath("/" + mount.point.lstrip("/"))
        if plain != mount.point:
            yield FieldFinding(
                mount.path,
                f"mount point '{mount.point}' is not in its plain form",
                f"write '{plain}'",
            )


@check("mount-missing")
def mount_missing(fleet: Fleet) -> Iterator[FieldFinding]:
    """Jobs name the path of a file system, so it should stand in the fleet file and not be guessed."""
    for mount in mounts(fleet):
        if not mount.written:
            yield FieldFinding(
                mount.path,
                f"file system {mount.name!r} has no mount point: nodes will see it at {mount.point}",
                f"write 'mount: {mount.point}' (or another path)",
                "warning",
                mount.name,
            )


@check("mount-on-bucket")
def mount_on_bucket(fleet: Fleet) -> Iterator[FieldFinding]:
    """A bucket is no file system: nodes read it over S3, or through a file system that imports it."""
    for path, _, item in fleet.storage():
        if item.bucket is not None and item.mount is not None:
            yield FieldFinding(
                (*path, "mount"),
                f"bucket {item.name!r} cannot be mounted",
                f"leave `mount` out, or declare a file system with 'import_from: s3://{item.bucket.name}'",
            )


@check("mount-reserved")
def mount_reserved(fleet: Fleet) -> Iterator[FieldFinding]:
    """A file system mounted over the system's own folders hides them, and the node does not boot, or
    loses its services' state."""
    for mount in mounts(fleet):
        point = posixpath.normpath(mount.point)
        below = [tree for tree in (*SYSTEM_TREES, *NODE_STATE) if _contains(tree, point)]
        if below or point in SYSTEM_FOLDERS:
            yield FieldFinding(
                mount.path,
                f"mount point {mount.point} belongs to the system" + (f" ({below[0]})" if below else ""),
                f"use a folder of its own, such as /fsx/{mount.name}",
            )
        elif point in HOMES or posixpath.dirname(point) in HOMES:
            yield FieldFinding(
                mount.path,
                f"a file system on {mount.point} hides the home of the user that administers the nodes:"
                " when it is not available, no user can log in",
                "mount it elsewhere, such as /shared/home, and point users' homes there",
                "warning",
            )


@check("mount-overlap")
def mount_overlap(fleet: Fleet) -> Iterator[FieldFinding]:
    """Of two file systems on one path, or one inside of the other, a node sees whichever came last."""
    seen: list[Mount] = []
    for mount in mounts(fleet):
        for other in seen:
            if mount.site != other.site:
                continue
            mine, theirs = posixpath.normpath(mount.point), posixpath.normpath(other.point)
            if _contains(theirs, mine) or _contains(mine, theirs):
                how = "is also that of" if mine == theirs else "overlaps that of"
                yield FieldFinding(
                    mount.path,
                    f"mount point {mount.point} of {mount.name!r} {how} {other.name!r} ({other.point})",
                    f"give each a path of its own, such as /fsx/{mount.name}",
                    value=mount.point,
                )
        seen.append(mount)


def _contains(tree: str, point: str) -> bool:
    return point == tree or point.startswith(tree.rstrip("/") + "/")


CHECKS = (
    mount_path,
    mount_missing,
    mount_on_bucket,
    mount_reserved,
    mount_overlap,
)
