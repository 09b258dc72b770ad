"""File systems: the nodes' own drives, NFS, Lustre."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.onprem.verify.measured import Judged, Measured, again
from gpufleet.onprem.verify.result import Result


def _mounts(text: str) -> dict[str, tuple[str, str, list[str]]]:
    """Path -> source, type and options, from /proc/self/mounts."""
    rows = [line.split() for line in text.splitlines() if len(line.split()) > 3]
    return {row[1].replace("\\040", " "): (row[0], row[2], row[3].split(",")) for row in rows}


def local_nvme(found: Measured) -> Iterator[Result]:
    """The scratch file system is on an array, mounted, writable, and comes back after a reboot."""
    mount = str(found.value("mount"))

    def mounted(text: str) -> Judged:
        there = _mounts(text).get(mount)
        if there is None:
            return Judged("not mounted", f"{mount} is not mounted")
        source, kind, options = there
        measured = f"{source} {kind}"
        return Judged(measured, f"{mount} is read-only" if "ro" in options else "")

    yield found.expect("mounted", "mounted", mounted, expected=mount, remedy=again(found))
    yield found.expect(
        "at boot",
        "fstab",
        lambda text: Judged(
            "in fstab" if mount in text.split() else "not in fstab",
            "" if mount in text.split() else f"{mount} is not in fstab",
        ),
        expected="in fstab",
        remedy=again(found),
    )
    yield found.expect(
        "array",
        "arrays",
        lambda text: Judged(
            f"{text.count('ARRAY')} arrays", "" if "ARRAY" in text else "there is no array of the drives"
        ),
        expected="an array",
        remedy="mdadm --assemble --scan",
    )


def _remote(found: Measured, kinds: tuple[str, ...]) -> Iterator[Result]:
    for item in found.value("mounts", []):
        path, source = str(item["path"]), str(item["source"])

        def mounted(text: str, path: str = path, source: str = source) -> Judged:
            there = _mounts(text).get(path)
            # A container has its machine's kernel, which binds in what it has mounted under another name.
            if there is not None and found.container:
                return Judged(there[0])
            if there is None or there[1] not in kinds:
                return Judged("not mounted", f"{path} is not mounted")
            return Judged(there[0], "" if there[0] == source else f"{path} is {there[0]} instead of {source}")

        yield found.expect(path, "mounted", mounted, expected=source, remedy=f"mount {path}, and see dmesg")


def nfs_client(found: Measured) -> Iterator[Result]:
    """Every NFS file system is mounted from its server, and the server answers."""
    yield from _remote(found, ("nfs", "nfs4"))
    for item in found.value("mounts", []):
        path = str(item["path"])
        yield found.runs(f"{path} answers", f"space_of_{path}", remedy="see the server and the network")


def lustre_client(found: Measured) -> Iterator[Result]:
    """The client is installed for the running kernel, and every file system is mounted."""
    yield found.runs("module", "module", remedy=again(found))
    yield found.runs("client", "version", remedy=again(found))
    yield from _remote(found, ("lustre",))
