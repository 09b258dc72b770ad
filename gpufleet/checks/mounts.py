"""Mount points: valid paths that overlap neither each other nor system folders."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from msgspec import Struct

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check
from gpufleet.plan.storage import default_mount
from gpufleet.plan.user_data import plan_local_nvme

SYSTEM_TREES = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
"""No mount points on or below these: the system would not boot or would lose its programs."""

SYSTEM_FOLDERS = ("/", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/lib", "/var/log", "/var/tmp")  # noqa: S108
"""No mount points on these, because a mount hides their content. Folders below them are allowed."""

NODE_STATE = ("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/docker", "/var/spool", "/var/run")
"""State of a node's services, which nodes must not share."""

HOMES = ("/home",)


class Mount(Struct, frozen=True):
    """A mount point and its path in the fleet file. `written` is False for a default derived from the
    name."""

    path: SpecPath
    site: str
    name: str
    point: str
    written: bool


def mounts(fleet: Fleet) -> Iterator[Mount]:
    """Return all mount points of a fleet."""
    for path, site, item in fleet.storage():
        if item.lustre is not None:
            written = item.mount is not None
            point = item.mount or default_mount(item.name)
            yield Mount((*path, "mount"), site.site, item.name, point, written)
    seen: set[tuple[str, str]] = set()
    for each in fleet.groups():
        drives = plan_local_nvme(each.site, each.group, fleet.types(each.group))
        # Nodes of several groups have their own drives at the same path.
        if drives is not None and drives.mount is not None and (each.site.site, drives.mount) not in seen:
            seen.add((each.site.site, drives.mount))
            where = (*each.path, "local_nvme", "mount")
            yield Mount(where, each.site.site, "local_nvme", drives.mount, True)
    for path, rack_site in fleet.onprem():
        for index, store in enumerate(rack_site.storage):
            where = (*path, "storage", index, "mount")
            yield Mount(where, rack_site.site, store.name, store.mount, True)
        if rack_site.local_nvme is not None:
            where = (*path, "local_nvme", "mount")
            yield Mount(where, rack_site.site, "local_nvme", rack_site.local_nvme.mount, True)


@check("mount-path")
def mount_path(fleet: Fleet) -> Iterator[FieldFinding]:
    """A mount point is in normal form, so that one path has one spelling."""
    for mount in mounts(fleet):
        plain = posixpath.normpath("/" + mount.point.lstrip("/"))
        if plain != mount.point:
            yield FieldFinding(
                mount.path,
                f"mount point '{mount.point}' is not in normal form",
                f"write '{plain}'",
            )


@check("mount-missing")
def mount_missing(fleet: Fleet) -> Iterator[FieldFinding]:
    """Jobs use the path of a file system, so the fleet file should declare it."""
    for mount in mounts(fleet):
        if not mount.written:
            yield FieldFinding(
                mount.path,
                f"file system {mount.name!r} has no mount point: nodes mount it at {mount.point}",
                f"write 'mount: {mount.point}' (or another path)",
                "warning",
                mount.name,
            )


@check("mount-on-bucket")
def mount_on_bucket(fleet: Fleet) -> Iterator[FieldFinding]:
    """A bucket is not a file system. Nodes read it over S3, or through a file system that imports it."""
    for path, _, item in fleet.storage():
        if item.bucket is not None and item.mount is not None:
            yield FieldFinding(
                (*path, "mount"),
                f"bucket {item.name!r} cannot be mounted",
                f"remove `mount`, or declare a file system with 'import_from: s3://{item.bucket.name}'",
            )


@check("mount-reserved")
def mount_reserved(fleet: Fleet) -> Iterator[FieldFinding]:
    """A mount hides the folder below it. On system folders, the node does not boot or loses the state of its
    services."""
    for mount in mounts(fleet):
        point = posixpath.normpath(mount.point)
        below = [tree for tree in (*SYSTEM_TREES, *NODE_STATE) if _contains(tree, point)]
        if below or point in SYSTEM_FOLDERS:
            yield FieldFinding(
                mount.path,
                f"mount point {mount.point} belongs to the system" + (f" ({below[0]})" if below else ""),
                f"use another folder, such as /fsx/{mount.name}",
            )
        elif point in HOMES or posixpath.dirname(point) in HOMES:
            yield FieldFinding(
                mount.path,
                f"a file system on {mount.point} hides the home of the administrator's user: no user can"
                " log in when it is unavailable",
                "use another path, such as /shared/home, and set the users' home folders to it",
                "warning",
            )


@check("mount-overlap")
def mount_overlap(fleet: Fleet) -> Iterator[FieldFinding]:
    """If two mount points are equal or nested, the last mount hides the other."""
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
                    f"give each its own path, such as /fsx/{mount.name}",
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
