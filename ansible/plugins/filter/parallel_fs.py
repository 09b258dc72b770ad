"""Lines of /etc/fstab for file systems with clients of vendors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

CONFIG = "/etc/beegfs/beegfs-client.conf"
"""Default configuration file of a BeeGFS client (beegfs-client.conf, "Mount Options")."""


def beegfs_config(item: Mapping[str, Any]) -> str:
    """The configuration file of a BeeGFS mount."""
    named = [option.partition("=")[2] for option in item["options"] if option.startswith("cfgFile=")]
    return named[0] if named else CONFIG


def parallel_fs_configs(mounts: Iterable[Mapping[str, Any]]) -> list[str]:
    """The configuration files of all BeeGFS mounts."""
    return sorted({beegfs_config(item) for item in mounts if item["kind"] == "beegfs"})


def parallel_fs_lines(mounts: Iterable[Mapping[str, Any]], common: str) -> list[dict[str, str]]:
    """`{source, path, fstype, options}` of `{kind, source, path, options}`; `common` are options of all."""
    return [_line(item, [word for word in common.split(",") if word]) for item in mounts]


def _line(item: Mapping[str, Any], common: list[str]) -> dict[str, str]:
    kind, source, options = item["kind"], item["source"], [*item["options"]]
    fstype = kind
    if kind == "beegfs":
        # BeeGFS has no device: the management host is an option.
        options = [f"cfgFile={beegfs_config(item)}", f"sysMgmtdHost={source}", *options]
        own = ["_netdev", "nofail", "x-systemd.mount-timeout=60"]
        source = "beegfs_nodev"
    elif kind == "weka":
        # WEKA documentation, "Mount a filesystem using fstab": the first mount starts the client's container.
        own = ["_netdev", "nofail", "x-systemd.requires=weka-agent.service"]
        own.append("x-systemd.mount-timeout=infinity")
        fstype = "wekafs"
    elif kind == "gpfs":
        # Same format as lines written by IBM Storage Scale: its daemon mounts, not systemd.
        own = [f"dev={source}", "noauto"]
    else:
        raise AnsibleFilterError(f"There is no kind {kind!r} here; use one of beegfs, weka, gpfs.")
    words = dict.fromkeys([*options, *common, *own])
    return {"source": source, "path": item["path"], "fstype": fstype, "options": ",".join(words)}


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"parallel_fs_lines": parallel_fs_lines, "parallel_fs_configs": parallel_fs_configs}
