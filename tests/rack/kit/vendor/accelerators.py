"""Libraries and management of GPUs: NCCL, DCGM, GDRCopy, GPUDirect Storage."""

from __future__ import annotations

import json
from collections.abc import Iterator

from vendor.deb import Package, launch
from vendor.elf import library

NCCL = ("2.30.7-1+cuda13.0", "2.31.2-1+cuda13.0", "2.32.3-1+cuda13.0")
DCGM = ("1:4.5.3-1", "1:4.6.0-1")
# Packages carry the exporter's own version, images that of DCGM before it.
EXPORTER = ("4.8.2-1", "4.8.3-1")
GDRCOPY = ("2.5-1", "2.5.2-1", "2.6-1")
LIBRARIES = "usr/lib/x86_64-linux-gnu"

HOST_ENGINE = """\
[Unit]
Description=NVIDIA DCGM service

[Service]
Type=simple
ExecStart=/usr/bin/nv-hostengine -n --service-account nvidia-dcgm
Restart=on-abort

[Install]
WantedBy=multi-user.target
"""
EXPORTER_UNIT = """\
[Unit]
Description=NVIDIA DCGM exporter
After=nvidia-dcgm.service

[Service]
Type=simple
ExecStart=/usr/bin/dcgm-exporter -f /etc/dcgm-exporter/default-counters.csv
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""


def packages() -> Iterator[Package]:
    yield from _nccl()
    yield from _dcgm()
    yield from _gdrcopy()
    yield from _storage()


def _nccl() -> Iterator[Package]:
    for version in NCCL:
        short = version.split("-")[0]
        name = f"libnccl.so.{short.split('+')[0]}"
        yield Package(
            "libnccl2",
            version,
            libraries={f"{LIBRARIES}/{name}": library("libnccl.so.2")},
            links={f"{LIBRARIES}/libnccl.so.2": name},
        )
        header = "#define NCCL_MAJOR {}\n#define NCCL_MINOR {}\n#define NCCL_PATCH {}\n".format(
            *short.split(".")
        )
        yield Package("libnccl-dev", version, f"libnccl2 (= {version})", files={"usr/include/nccl.h": header})


def _dcgm() -> Iterator[Package]:
    for version in DCGM:
        short = version.split(":")[1].split("-")[0]
        core = "datacenter-gpu-manager-4-core"
        yield Package(
            core,
            version,
            conflicts="datacenter-gpu-manager",
            postinst="getent passwd nvidia-dcgm >/dev/null || useradd --system --no-create-home "
            "--shell /usr/sbin/nologin nvidia-dcgm\n",
            depends="passwd",
            tools={
                "usr/bin/dcgmi": launch("dcgmi", short),
                "usr/bin/nv-hostengine": launch("services", "nv-hostengine", short),
            },
            services={"nvidia-dcgm.service": HOST_ENGINE},
            enabled=False,
        )
        parts = ("cuda12", "cuda13", "cuda-all", "proprietary", "dev")
        for name in (*parts, "proprietary-cuda12", "proprietary-cuda13"):
            yield Package(f"datacenter-gpu-manager-4-{name}", version, f"{core} (= {version})")
        yield Package("datacenter-gpu-manager-4", version, f"{core} (= {version})")
    for version in EXPORTER:
        files = {
            "etc/dcgm-exporter/default-counters.csv": "DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).\n"
        }
        for name in ("datacenter-gpu-manager-exporter", "dcgm-exporter"):
            yield Package(
                name,
                version,
                "datacenter-gpu-manager-4-core",
                conflicts="dcgm-exporter" if name != "dcgm-exporter" else "datacenter-gpu-manager-exporter",
                files=files,
                tools={"usr/bin/dcgm-exporter": launch("services", "dcgm-exporter", version)},
                services={"nvidia-dcgm-exporter.service": EXPORTER_UNIT},
                enabled=False,
            )


def _gdrcopy() -> Iterator[Package]:
    for version in GDRCOPY:
        short = version.split("-")[0]
        module = json.dumps({"version": short, "open": True, "license": "MIT"}) + "\n"
        yield Package("libgdrapi", version, files={f"{LIBRARIES}/libgdrapi.so.{short}": ""})
        yield Package("gdrdrv-dkms", version, files={"usr/lib/hardware-modules/gdrdrv.json": module})
        yield Package(
            "gdrcopy-tests",
            version,
            f"libgdrapi (= {version})",
            tools={
                f"usr/bin/gdrcopy_{name}": "#!/bin/sh\ntest -d /sys/module/gdrdrv\n"
                for name in ("sanity", "copybw")
            },
        )
        yield Package("gdrcopy", version, f"libgdrapi (= {version}), gdrdrv-dkms (= {version})")


def _storage() -> Iterator[Package]:
    module = json.dumps({"version": "2.26.6", "open": True, "license": "GPL v2"}) + "\n"
    yield Package("nvidia-fs-dkms", "2.26.6-1", files={"usr/lib/hardware-modules/nvidia_fs.json": module})
    yield Package("nvidia-fs", "2.26.6-1", "nvidia-fs-dkms (= 2.26.6-1)")
    check = "#!/bin/sh\necho ' GDS release version: 1.15.1.6'\ntest -d /sys/module/nvidia_fs\n"
    yield Package("gds-tools-13-0", "1.15.1.6-1", tools={"usr/local/cuda/gds/tools/gdscheck": check})
    yield Package("nvidia-gds", "13.0.2-1", "nvidia-fs, gds-tools-13-0")
    yield Package("nvidia-gds-13-0", "13.0.2-1", "nvidia-fs, gds-tools-13-0")
