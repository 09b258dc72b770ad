"""GPU drivers with their kernel modules, Fabric Manager and persistence daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator

from vendor.deb import Package, launch

# The locks' own, one older of each naming of packages, and one newer than a lock's.
VERSIONS = ("570.211.01", "580.126.20", "580.159.03", "595.71.05", "595.91.07")
# Fabric Manager: packages carry the branch in their name before 580, the bare name from then on.
RENAMED = 580
MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem")
LIBRARIES = "usr/lib/x86_64-linux-gnu"

PERSISTENCED = """\
[Unit]
Description=NVIDIA Persistence Daemon

[Service]
Type=simple
ExecStart=/usr/bin/nvidia-persistenced --persistence-mode

[Install]
WantedBy=multi-user.target
"""
FABRIC_MANAGER = """\
[Unit]
Description=NVIDIA fabric manager service
After=network-online.target
Requires=network-online.target

[Service]
User=root
PrivateTmp=false
Type=simple
TimeoutStartSec=720
ExecStart=/usr/bin/nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg
LimitCORE=infinity

[Install]
WantedBy=multi-user.target
"""
FABRIC_CONFIG = """\
LOG_LEVEL=4
LOG_FILE_NAME=/var/log/fabricmanager.log
DAEMONIZE=1
BIND_INTERFACE_IP=127.0.0.1
STARTING_TCP_PORT=16000
FABRIC_MODE=0
"""


def packages() -> Iterator[Package]:
    for version in VERSIONS:
        yield from _driver(version)
        yield from _fabric(version)


def _driver(version: str) -> Iterator[Package]:
    full, branch = f"{version}-1", version.split(".")[0]
    same = f"(= {full})"
    for name, is_open in (("nvidia-kernel-open-dkms", True), ("nvidia-kernel-dkms", False)):
        other = "nvidia-kernel-dkms" if is_open else "nvidia-kernel-open-dkms"
        licence = "Dual MIT/GPL" if is_open else "NVIDIA"
        module = json.dumps({"version": version, "open": is_open, "license": licence})
        yield Package(
            name,
            full,
            conflicts=other,
            provides="nvidia-kernel-module",
            files={f"usr/lib/hardware-modules/{item}.json": module + "\n" for item in MODULES},
        )
    yield Package("libnvidia-ml1", full, files={f"{LIBRARIES}/libnvidia-ml.so.{version}": ""})
    yield Package("libcuda1", full, files={f"{LIBRARIES}/libcuda.so.{version}": ""})
    yield Package("nvidia-modprobe", full)
    yield Package(
        "nvidia-smi", full, f"libnvidia-ml1 {same}", tools={"usr/bin/nvidia-smi": launch("nvidia_smi")}
    )
    yield Package(
        "nvidia-persistenced",
        full,
        tools={"usr/bin/nvidia-persistenced": launch("services", "nvidia-persistenced", version)},
        services={"nvidia-persistenced.service": PERSISTENCED},
    )
    tools = f"nvidia-smi {same}, libcuda1 {same}, nvidia-persistenced {same}, nvidia-modprobe {same}"
    yield Package("nvidia-driver-cuda", full, tools)
    yield Package(
        "nvidia-driver",
        full,
        f"nvidia-driver-cuda {same}, nvidia-kernel-open-dkms {same} | nvidia-kernel-dkms {same}",
    )
    opened = f"nvidia-driver {same}, nvidia-kernel-open-dkms {same}"
    closed = f"nvidia-driver {same}, nvidia-kernel-dkms {same}"
    yield Package("nvidia-open", full, opened)
    yield Package("cuda-drivers", full, closed)
    for name in (
        f"nvidia-open-{branch}",
        f"nvidia-driver-{branch}-open",
        f"nvidia-driver-{branch}-server-open",
    ):
        yield Package(name, full, opened)
    for name in (f"cuda-drivers-{branch}", f"nvidia-driver-{branch}", f"nvidia-driver-{branch}-server"):
        yield Package(name, full, closed)
    for name in (f"nvidia-utils-{branch}", f"nvidia-utils-{branch}-server"):
        yield Package(name, full, f"nvidia-smi {same}")
    if int(branch) >= RENAMED:
        yield Package(f"nvidia-driver-pinning-{branch}", full)
        pin = f"Package: *nvidia* cuda-drivers* libcuda1\nPin: version {version}*\nPin-Priority: 1000\n"
        yield Package(
            f"nvidia-driver-pinning-{version}",
            full,
            files={"etc/apt/preferences.d/nvidia-driver-pinning": pin},
        )


def _fabric(version: str) -> Iterator[Package]:
    full, branch = f"{version}-1", int(version.split(".")[0])
    names = ["nvidia-fabricmanager"] if branch >= RENAMED else []
    # Ubuntu's archive and older releases of NVIDIA's keep the branch in the name.
    names.append(f"nvidia-fabricmanager-{branch}")
    for name in names:
        yield Package(
            name,
            full,
            conflicts=", ".join(_other_fabric_managers(name)),
            provides="fabricmanager",
            files={"usr/share/nvidia/nvswitch/fabricmanager.cfg": FABRIC_CONFIG},
            tools={"usr/bin/nv-fabricmanager": launch("services", "nv-fabricmanager", version)},
            services={"nvidia-fabricmanager.service": FABRIC_MANAGER},
            enabled=False,
        )
    for name in (
        "nvidia-imex",
        f"nvidia-imex-{branch}",
        "libnvidia-nscq",
        f"libnvidia-nscq-{branch}",
        "libnvsdm",
        "nvlsm",
    ):
        yield Package(name, full)


def _other_fabric_managers(name: str) -> list[str]:
    branches = sorted({version.split(".")[0] for version in VERSIONS})
    every = ["nvidia-fabricmanager", *(f"nvidia-fabricmanager-{branch}" for branch in branches)]
    return [other for other in every if other != name]
