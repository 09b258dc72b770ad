"""PCI device IDs of GPUs: the bus's ids for the catalog's names, such as `H100`."""

from functools import cache
from pathlib import Path
from typing import Literal

from gpufleet.catalog.models import Fact
from gpufleet.catalog.store import read_entries


class GpuDevice(Fact):
    """A GPU with its PCI device ID. `device` is four hexadecimal digits."""

    device: str
    gpu: str
    title: str
    form: Literal["sxm", "pcie", "superchip"]
    source: str


@cache
def gpu_devices() -> dict[str, GpuDevice]:
    """Return every known device by its ID. GPUs without a source are not listed."""
    path = Path(__file__).parent / "data" / "pci.json"
    return {entry.device: entry for entry in read_entries(path, GpuDevice, "devices")}


def device_ids(gpu: str, form: str | None = None) -> frozenset[str]:
    """Return the IDs of `gpu`, of one form if given; empty if unknown."""
    return frozenset(
        entry.device for entry in gpu_devices().values() if entry.gpu == gpu and form in (None, entry.form)
    )
