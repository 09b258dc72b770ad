"""Networking: DOCA-OFED with its kernel modules and tools, and clients of parallel file systems."""

from __future__ import annotations

import json
from collections.abc import Iterator

from vendor.deb import Package, launch

# Release of DOCA, of its OFED, and of its tools.
DOCA = (("3.3.0-26.01.1.0.0.0", "26.01-1.0.0.0"), ("3.4.0-26.04.0.8.6.0", "26.04-0.8.6.0"))
MODULES = ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "rdma_cm")
NAMED = '#!/bin/sh\nexec /usr/bin/python3 -ES /usr/lib/hardware/adapters.py "$0" "$@"\n'
OPENIBD = """#!/bin/sh
# At boot and with `start`: modules by name, unless the configuration excludes them.
. /etc/infiniband/openib.conf
[ "$1" = start ] || exit 0
[ "${IPOIB_LOAD:-yes}" = no ] || modprobe ib_ipoib
"""
OPENIBD_UNIT = """[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/openibd start
[Install]
WantedBy=multi-user.target
"""
LUSTRE = ("2.15.8-1", "2.17.0-1")


def packages() -> Iterator[Package]:
    for release, ofed in DOCA:
        yield from _doca(release, ofed)
    for version in LUSTRE:
        module = json.dumps({"version": version.split("-")[0], "open": True, "license": "GPL"}) + "\n"
        files = {f"usr/lib/hardware-modules/{name}.json": module for name in ("lnet", "lustre")}
        yield Package("lustre-client-modules-dkms", version, files=files)
        short = version.split("-")[0]
        tools = {
            "usr/bin/lfs": f"#!/bin/sh\necho 'lfs {short}'\n",
            "usr/sbin/mount.lustre": launch("remote_mount"),
        }
        yield Package(
            "lustre-client-utils", version, "lustre-client-modules-dkms | lustre-client-modules", tools=tools
        )
    yield from _clients()


def _clients() -> Iterator[Package]:
    """Clients that a site installs itself. WEKA's comes from a backend and is no package."""
    module = json.dumps({"version": "8.1.0", "open": True, "license": "GPL"}) + "\n"
    yield Package(
        "beegfs-client-dkms",
        "8.1.0",
        files={
            "usr/lib/hardware-modules/beegfs.json": module,
            "etc/beegfs/beegfs-client.conf": "sysMgmtdHost =\nconnAuthFile = /etc/beegfs/conn.auth\n",
        },
        tools={"usr/sbin/mount.beegfs": launch("remote_mount")},
    )
    agent = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
    yield Package(
        "weka-agent",
        "5.1.0",
        tools={"usr/sbin/mount.wekafs": launch("remote_mount")},
        services={"weka-agent.service": agent},
    )
    state = "echo 'mmgetstate::0:1:::node:1:'$(cat /var/mmfs/state 2>/dev/null || echo unknown)':1:'\n"
    yield Package(
        "gpfs.base",
        "6.0.1-0",
        tools={
            "usr/lpp/mmfs/bin/mmgetstate": f"#!/bin/sh\n{state}",
            "usr/sbin/mount.gpfs": launch("remote_mount"),
        },
    )


def _doca(release: str, ofed: str) -> Iterator[Package]:
    version = f"{ofed}-1"
    module = json.dumps({"version": ofed, "open": True, "license": "Dual BSD/GPL"}) + "\n"
    yield Package(
        "mlnx-ofed-kernel-dkms",
        version,
        files={f"usr/lib/hardware-modules/{name}.json": module for name in MODULES},
    )
    yield Package(
        "mlnx-ofed-kernel-utils",
        version,
        files={"etc/infiniband/openib.conf": "ONBOOT=yes\nUCM_LOAD=no\nRUN_SYSCTL=no\n"},
        tools={"usr/sbin/openibd": OPENIBD},
        services={"openibd.service": OPENIBD_UNIT},
        started=False,
    )
    yield Package(
        "mlnx-tools",
        version,
        tools={f"usr/sbin/{name}": NAMED for name in ("mlnx_qos", "cma_roce_tos", "ibdev2netdev")},
    )
    yield Package(
        "mft",
        f"4.35.0-{ofed.split('-')[1]}",
        tools={f"usr/bin/{name}": NAMED for name in ("mst", "mlxconfig")},
    )
    yield Package("mstflint", version, tools={"usr/bin/mstconfig": NAMED})
    yield Package(
        "ofed-scripts",
        version,
        files={"usr/share/ofed-version": ofed + "\n"},
        tools={"usr/bin/ofed_info": NAMED},
    )
    parts = ("mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-utils", "mlnx-tools", "ofed-scripts")
    depends = ", ".join([*(f"{name} (= {version})" for name in parts), "mft"])
    for name in ("doca-ofed", "doca-networking", "doca-all"):
        yield Package(name, release, depends)
    yield Package("mlnx-ofed-all", ofed, depends)
