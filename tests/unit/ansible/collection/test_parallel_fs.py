"""Lines of /etc/fstab for BeeGFS, WEKA and IBM Storage Scale."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpufleet.rack.plugins.filter.parallel_fs import (
    parallel_fs_configs,
    parallel_fs_lines,
)


def mount(kind: str, source: str, *options: str) -> dict[str, Any]:
    return {"kind": kind, "source": source, "path": "/fast", "options": list(options)}


AGENT = ",_netdev,nofail,x-systemd.requires=weka-agent.service"
AT_BOOT = ",_netdev,nofail,x-systemd.mount-timeout=60"


@pytest.mark.parametrize(
    ("item", "first", "options"),
    [
        (
            mount("beegfs", "mgmtd01", "noatime"),
            "beegfs_nodev beegfs",
            f"cfgFile=/etc/beegfs/beegfs-client.conf,sysMgmtdHost=mgmtd01,noatime,nosuid,nodev{AT_BOOT}",
        ),
        (
            mount("beegfs", "mgmtd02", "cfgFile=/etc/beegfs/two.conf"),
            "beegfs_nodev beegfs",
            f"cfgFile=/etc/beegfs/two.conf,sysMgmtdHost=mgmtd02,nosuid,nodev{AT_BOOT}",
        ),
        (
            mount("weka", "weka01,weka02/fast", "net=ib0", "net=ib1", "num_cores=2"),
            "weka01,weka02/fast wekafs",
            f"net=ib0,net=ib1,num_cores=2,nosuid,nodev{AGENT},x-systemd.mount-timeout=infinity",
        ),
        (mount("gpfs", "fast", "ro", "nosuid"), "fast gpfs", "ro,nosuid,nodev,dev=fast,noauto"),
    ],
)
def test_line_has_the_documented_options_each_once(item: dict[str, Any], first: str, options: str) -> None:
    (found,) = parallel_fs_lines([item], "nosuid,nodev")
    assert f"{found['source']} {found['fstype']}" == first
    assert found["options"] == options
    assert found["path"] == "/fast"


def test_configuration_files_are_those_that_beegfs_reads() -> None:
    items = [
        mount("beegfs", "a"),
        mount("beegfs", "b", "cfgFile=/etc/beegfs/b.conf"),
        mount("beegfs", "c"),
        mount("weka", "w/fs"),
    ]
    assert parallel_fs_configs(items) == ["/etc/beegfs/b.conf", "/etc/beegfs/beegfs-client.conf"]


def test_unsupported_file_system_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="use one of beegfs, weka, gpfs"):
        parallel_fs_lines([mount("nfs", "nas01:/x")], "")
