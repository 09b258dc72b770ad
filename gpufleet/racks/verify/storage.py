"""File systems: the nodes' own drives, NFS, Lustre, and those whose clients come from their vendors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from gpufleet.racks.verify.measurements import Reading, RoleMeasurements, again
from gpufleet.racks.verify.result import Result


def _mounts(text: str) -> dict[str, tuple[str, str, list[str]]]:
    """Path -> source, type and options, from /proc/self/mounts."""
    rows = [line.split() for line in text.splitlines() if len(line.split()) > 3]
    return {row[1].replace("\\040", " "): (row[0], row[2], row[3].split(",")) for row in rows}


def local_nvme(found: RoleMeasurements) -> Iterator[Result]:
    """The scratch file system is on an array, mounted, writable, and comes back after a reboot."""
    mount = str(found.value("mount"))

    def mounted(text: str) -> Reading:
        there = _mounts(text).get(mount)
        if there is None:
            return Reading("not mounted", f"{mount} is not mounted")
        source, kind, options = there
        measured = f"{source} {kind}"
        return Reading(measured, f"{mount} is read-only" if "ro" in options else "")

    yield found.expect("mounted", "mounted", mounted, expected=mount, remedy=again(found))
    yield found.expect(
        "at boot",
        "fstab",
        lambda text: Reading(
            "in fstab" if mount in text.split() else "not in fstab",
            "" if mount in text.split() else f"{mount} is not in fstab",
        ),
        expected="in fstab",
        remedy=again(found),
    )
    yield found.expect(
        "array",
        "arrays",
        lambda text: Reading(
            f"{text.count('ARRAY')} arrays", "" if "ARRAY" in text else "there is no array of the drives"
        ),
        expected="an array",
        remedy="mdadm --assemble --scan",
    )


def _remote(found: RoleMeasurements, kinds: tuple[str, ...]) -> Iterator[Result]:
    for item in found.value("mounts", []):
        path, source = str(item["path"]), str(item["source"])

        def mounted(text: str, path: str = path, source: str = source) -> Reading:
            there = _mounts(text).get(path)
            # A container has its machine's kernel, which binds in what it has mounted under another name.
            if there is not None and found.container:
                return Reading(there[0])
            if there is None or there[1] not in kinds:
                return Reading("not mounted", f"{path} is not mounted")
            return Reading(
                there[0], "" if there[0] == source else f"{path} is {there[0]} instead of {source}"
            )

        yield found.expect(path, "mounted", mounted, expected=source, remedy=f"mount {path}, and see dmesg")


def nfs_client(found: RoleMeasurements) -> Iterator[Result]:
    """Every NFS file system is mounted from its server, and the server answers."""
    yield from _remote(found, ("nfs", "nfs4"))
    yield from _answers(found)


def _answers(found: RoleMeasurements) -> Iterator[Result]:
    for item in found.value("mounts", []):
        path = str(item["path"])
        yield found.runs(f"{path} answers", f"space_of_{path}", remedy="see the server and the network")


def lustre_client(found: RoleMeasurements) -> Iterator[Result]:
    """The client is installed for the running kernel, and every file system is mounted."""
    yield found.runs("module", "module", remedy=again(found))
    yield found.runs("client", "version", remedy=again(found))
    yield from _remote(found, ("lustre",))


_KERNEL_OPTIONS = ("ro", "nosuid", "nodev", "noexec", "noatime")
"""Options that the kernel keeps and shows for every type of file system."""


def parallel_fs_client(found: RoleMeasurements) -> Iterator[Result]:
    """The vendors' clients are ready, and every file system is mounted as declared and answers."""
    mounts = found.value("mounts", [])
    kinds = {item["kind"] for item in mounts}
    if "beegfs" in kinds:
        yield found.runs("beegfs module", "beegfs", remedy="install BeeGFS's client for the running kernel")
    if "weka" in kinds:
        yield found.active("weka agent", "weka", "weka-agent")
    if "gpfs" in kinds:
        yield found.expect(
            "gpfs daemon",
            "gpfs",
            lambda text: Reading(
                "active" if ":active:" in text else "not active",
                "" if ":active:" in text else "the daemon of IBM Storage Scale is not active",
            ),
            expected="active",
            remedy="mmstartup, and see /var/adm/ras/mmfs.log.latest",
        )
    for item in mounts:
        yield found.expect(
            str(item["path"]),
            "mounted",
            partial(_parallel, found, item),
            expected=str(item["source"]),
            remedy=again(found),
        )
    yield from _answers(found)


def _parallel(found: RoleMeasurements, item: Mapping[str, Any], text: str) -> Reading:
    """Compare type, source and options of a mount with those of the kernel."""
    path, kind, source = str(item["path"]), str(item["kind"]), str(item["source"])
    there = _mounts(text).get(path)
    if there is not None and found.container:
        return Reading(there[0])
    fstype = {"weka": "wekafs"}.get(kind, kind)
    if there is None:
        return Reading("not mounted", f"{path} is not mounted")
    shown, other, options = there
    if other != fstype:
        return Reading(other, f"{path} is {other} instead of {fstype}")
    if kind == "beegfs":
        # BeeGFS has no device; its module shows the management host among the options.
        shown = next((word.partition("=")[2] for word in options if word.startswith("sysMgmtdHost=")), shown)
        same = shown == source
    else:
        # WEKA shows one of the backends or none, IBM Storage Scale the name with or without /dev/.
        same = shown.rpartition("/")[2] == source.rpartition("/")[2]
    if not same:
        return Reading(shown, f"{path} is {shown} instead of {source}")
    declared = [*item["options"], *str(found.value("options", "")).split(",")]
    lacking = [word for word in _KERNEL_OPTIONS if word in declared and word not in options]
    return Reading(shown, f"{path} is mounted without {', '.join(lacking)}" if lacking else "")
