"""NVIDIA's own container toolkit on the GPUs of a host, with an NVML that answers from its hardware.

The packages take the place of those of the same names in `vendor/`, whose programs are stand-ins.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from vendor.containers import CDI_PATH, CDI_SERVICE
from vendor.deb import Package
from vendor.drivers import LIBRARIES

HARDWARE = "srv/hardware/gpus"
NVML_SOURCE = Path(__file__).with_name("nvml.c")
CUDA_SOURCE = "int cuDriverGetVersion(int *version) { *version = CUDA; return 0; }\n"
# As the real package does it.
CONFIGURE = (
    "/usr/bin/nvidia-ctk --quiet config --config-file=/etc/nvidia-container-runtime/config.toml --in-place\n"
)


def of_driver(driver: str, cuda: str, header: Path, scratch: Path) -> Iterator[Package]:
    """libnvidia-ml1 and libcuda1 of a driver and its CUDA (`13.0`). `header` is the folder of nvml.h.

    The toolkit mounts every file of the libraries' folder whose name ends in the driver's version into
    containers, a link as what it leads to. So the hardware gets there as well, and NVML reads it by the same
    path. The link is relative: the device plugin follows it below the folder where it has the host's root.
    """
    major, minor = map(int, cuda.split(".")[:2])
    flags = [f'-DDRIVER="{driver}"', f"-DCUDA={1000 * major + 10 * minor}", f"-I{header}"]
    up = "../" * (LIBRARIES.count("/") + 1)
    hardware = {f"{LIBRARIES}/libnvidia-hardware.so.{driver}": up + HARDWARE}
    for package, name, source, links in (
        ("libnvidia-ml1", "libnvidia-ml.so", NVML_SOURCE.read_text(), hardware),
        ("libcuda1", "libcuda.so", CUDA_SOURCE, {}),
    ):
        built = scratch / name
        # With sections, unlike the libraries of `vendor/elf.py`: the toolkit reads the SONAME in one.
        options = ["-O1", "-shared", "-fPIC", f"-Wl,-soname,{name}.1", *flags]
        command = ["gcc", *options, "-o", built, "-x", "c", "-"]
        subprocess.run(command, input=source, text=True, check=True)
        yield Package(
            package,
            f"{driver}-1",
            libraries={f"{LIBRARIES}/{name}.{driver}": built.read_bytes()},
            links={f"{LIBRARIES}/{name}.1": f"{name}.{driver}", **links},
            postinst="ldconfig\n",
        )


def toolkit(version: str, places: Mapping[str, str]) -> Package:
    """nvidia-container-toolkit-base with programs that are elsewhere."""
    return Package(
        "nvidia-container-toolkit-base",
        version,
        links={f"usr/bin/{name}": where for name, where in places.items()},
        services={"nvidia-cdi-refresh.service": CDI_SERVICE, "nvidia-cdi-refresh.path": CDI_PATH},
        postinst=CONFIGURE,
    )
