"""Sources and mount options of a rack's file systems: the valid ones of each kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpufleet.checks.rules import FieldFinding, Fleet, check, did_you_mean, listed, nearest

_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"
_SOURCES: Mapping[str, tuple[str, str]] = {
    "nfs": (r"[^\s:/@]+:/\S*", "nas01:/export/home"),
    "lustre": (r"[^\s/]+@[a-z0-9]+(:[^\s/]+@[a-z0-9]+)*:/\S+", "10.0.0.1@tcp:/scratch"),
    "beegfs": (_HOST, "mgmtd01"),
    "weka": (rf"{_HOST}(,{_HOST})*/[A-Za-z0-9][A-Za-z0-9_.-]*", "weka01,weka02/scratch"),
    "gpfs": (r"[A-Za-z][A-Za-z0-9_.-]*", "scratch"),
}
"""Kind -> pattern of its sources, and an example."""

_FLAG, _NUMBER, _PATH = "", "[0-9]+", "/[A-Za-z0-9_./=+,@:%-]+"
_ADDRESS = "[0-9A-Fa-f]*[.:][0-9A-Fa-f.:]+"
_VALUES = {_NUMBER: "a whole number", _PATH: "an absolute path"}

_GENERAL = dict.fromkeys(("ro", "rw", "nosuid", "nodev", "noexec", "noatime", "relatime"), _FLAG)

OPTIONS: Mapping[str, Mapping[str, str]] = {
    # BeeGFS 7.4 and 8: beegfs-client.conf, "Mount Options", and the client module's MountConfig.c.
    "beegfs": _GENERAL
    | {
        "cfgFile": _PATH,
        "connAuthFile": _PATH,
        "connMgmtdPort": _NUMBER,
        "connMgmtdPortTCP": _NUMBER,
        "connMgmtdPortUDP": _NUMBER,
        "connPortShift": _NUMBER,
        "grpid": _FLAG,
        "logLevel": "[0-5]",
        "sysMountSanityCheckMS": _NUMBER,
    },
    # WEKA documentation, "Mount filesystems", command options and stateless clients.
    "weka": _GENERAL
    | {
        "acl": _FLAG,
        "auth_token_path": _PATH,
        "bandwidth_mbps": _NUMBER,
        "core": _NUMBER,
        "dedicated_mode": "full|none",
        "dentry_max_age_negative": _NUMBER,
        "dentry_max_age_positive": _NUMBER,
        "inode_bits": "32|64|auto",
        "memory_mb": _NUMBER,
        "net": f"[A-Za-z0-9][A-Za-z0-9_.:-]*(/{_ADDRESS}(/[0-9]+(/{_ADDRESS})?)?)?",
        "num_cores": _NUMBER,
        "quiet": _FLAG,
        "readahead_kb": _NUMBER,
        "readcache": _FLAG,
        "relatime_threshold": _NUMBER,
        "remove_after_secs": _NUMBER,
        "reserve_1g_hugepages": _FLAG,
        "strictatime": _FLAG,
        "traces_capacity_mb": _NUMBER,
        "verbose": _FLAG,
        "writecache": _FLAG,
    },
    # IBM Storage Scale, "Mount options specific to IBM Storage Scale".
    "gpfs": _GENERAL
    | {
        "atime": _FLAG,
        "mtime": _FLAG,
        "nomtime": _FLAG,
        "norelatime": _FLAG,
        "nosyncnfs": _FLAG,
        "syncnfs": _FLAG,
        "useNSDserver": "always|asfound|asneeded|never",
    },
}
"""Kind -> its options, with the pattern of each value. `_FLAG` options have no value."""

_REPEATED = ("core", "net")
"""WEKA options that may be repeated, one for each core or interface."""

_WEAKENS = {
    "suid": "lets files on the servers give any user root rights on a node",
    "dev": "enables device files from the servers on a node",
    "exec": "is the default: programs can run unless noexec is set",
    "connDisableAuthentication": "lets any host on the network connect as a client",
}
_OWN = ("_netdev", "nofail", "noauto", "auto", "sysMgmtdHost")
"""Options that the role sets or derives from the source."""

_EXCLUDE = (
    ("ro", "rw"),
    ("readcache", "writecache"),
    ("core", "num_cores"),
    ("mtime", "nomtime"),
    ("syncnfs", "nosyncnfs"),
    ("atime", "noatime"),
    ("noatime", "relatime", "norelatime", "strictatime"),
    ("verbose", "quiet"),
)
"""Options that exclude each other."""


@check("mount-source")
def mount_source(fleet: Fleet) -> Iterator[FieldFinding]:
    """A source has the format of its kind: host:/export (mount.nfs(8)), mgs@network:/fs (mount.lustre(8)),
    the management host (BeeGFS), backend[,backend]/fs (WEKA), a file system of the cluster (mmmount)."""
    for path, site in fleet.onprem():
        for index, store in enumerate(site.storage):
            pattern, example = _SOURCES[store.kind]
            if not re.fullmatch(pattern, store.source):
                yield FieldFinding(
                    (*path, "storage", index, "source"),
                    f"'{store.source}' is not a valid {store.kind} source",
                    f"write it as '{example}'",
                )


@check("mount-options")
def mount_options(fleet: Fleet) -> Iterator[FieldFinding]:
    """A client rejects unknown options when it mounts, on every node. Some options weaken the node's
    security."""
    for path, site in fleet.onprem():
        for index, store in enumerate(site.storage):
            where = (*path, "storage", index, "options")
            known = OPTIONS.get(store.kind)
            if known is None:
                if store.options:
                    yield FieldFinding(
                        where,
                        f"file system {store.name!r} is of kind {store.kind}, whose options the role sets",
                        f"remove `options`, or set {store.kind}_client_options for all {store.kind} mounts",
                        value=listed(store.options),
                    )
                continue
            for at, option in enumerate(store.options):
                if (wrong := _wrong(option, store.kind, known)) is not None:
                    yield FieldFinding((*where, at), *wrong, value=option)
            if (both := _contradiction(store.options)) is not None:
                yield FieldFinding(where, *both, value=listed(store.options))


def _wrong(option: str, kind: str, known: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the error in an option and its remedy, None if it is valid."""
    name, equals, value = option.partition("=")
    if name in _OWN or name.startswith("x-") or (kind == "gpfs" and name == "dev" and equals):
        return (
            f"option {name!r} is set by the role or derived from `source`",
            "remove it",
        )
    if name in _WEAKENS:
        return f"option {name!r} {_WEAKENS[name]}", "remove it"
    if name not in known:
        return (
            f"{kind} has no mount option {name!r}",
            did_you_mean(nearest(name, known), f"use one of {listed(sorted(known), limit=40)}"),
        )
    form = known[name]
    if form == _FLAG:
        return (f"option {name!r} of {kind} takes no value", f"write {name!r}") if equals else None
    if re.fullmatch(form, value):
        return None
    wants = _VALUES.get(form) or ("<device>[/<address>/<bits>[/<gateway>]]" if name == "net" else form)
    return f"{value!r} is not a valid value of {kind}'s option {name!r}", f"write {name}= and {wants}"


def _contradiction(options: tuple[str, ...]) -> tuple[str, str] | None:
    """Return repeated or contradictory options and the remedy, None if there are none."""
    names = [option.partition("=")[0] for option in options]
    for name in dict.fromkeys(names):
        if names.count(name) > 1 and name not in _REPEATED:
            return f"option {name!r} is listed more than once", "keep one of them"
    for group in _EXCLUDE:
        both = [name for name in group if name in names]
        if len(both) > 1:
            return f"options {listed(both)} exclude each other", "keep one of them"
    return None


CHECKS = (mount_source, mount_options)
