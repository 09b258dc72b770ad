"""PCI device IDs of GPUs: how the bus names what the catalog calls `H100`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from gpufleet.catalog.models import Fact
from gpufleet.catalog.store import read_entries


class GpuDevice(Fact):
    """A GPU as the PCI bus names it. `device` is four hexadecimal digits."""

    device: str
    gpu: str
    title: str
    form: Literal["sxm", "pcie", "superchip"]
    source: str


@cache
def gpu_devices() -> dict[str, GpuDevice]:
    """Every known device by its ID. A GPU that is not listed was in none of the sources read."""
    path = Path(__file__).parent / "data" / "pci.json"
    return {entry.device: entry for entry in read_entries(path, GpuDevice, "devices")}


def device_ids(gpu: str, form: str | None = None) -> frozenset[str]:
    """The IDs under which `gpu` is known, of one form if asked; empty when none was read."""
    return frozenset(
        entry.device for entry in gpu_devices().values() if entry.gpu == gpu and form in (None, entry.form)
    )
