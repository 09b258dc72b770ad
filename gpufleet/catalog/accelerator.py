"""The accelerators of an instance type: GPUs, or AWS's Neuron devices."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

AcceleratorKind = Literal["gpu", "neuron"]
"""NVIDIA's GPUs, and AWS's Trainium and Inferentia, whose driver and device plugin are those of Neuron."""

NEURON_NAMES = frozenset({"Inferentia", "Inferentia2", "Trainium", "Trainium2", "Trainium3"})
"""Names of Neuron devices, as DescribeInstanceTypes writes them."""

_FLAT = {"gpu": "name", "gpu_count": "count", "gpu_memory_gib": "memory_gib", "gpu_partition": "partition"}


class Accelerator(BaseModel):
    """The accelerators of an instance type.

    `count` counts whole devices (0 for a fraction, see `partition`). `memory_gib` is per device, or per
    fraction. `cores` are the NeuronCores of one device, None for GPUs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: AcceleratorKind
    name: str
    count: int
    memory_gib: float | None = None
    partition: float = 1.0
    cores: int | None = None

    @property
    def devices(self) -> float:
        """Devices of one instance: whole ones, or the fraction of one."""
        return self.count or self.partition


def nested(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with `accelerator` for one with `gpu`, `gpu_count` and so on, which files of
    `gpufleet catalog refresh` had before they knew kinds."""
    rest = {name: value for name, value in entry.items() if name not in _FLAT}
    name = entry.get("gpu")
    if name is None:
        return rest
    figures = {_FLAT[each]: entry[each] for each in _FLAT if each in entry}
    kind: AcceleratorKind = "neuron" if name in NEURON_NAMES else "gpu"
    return rest | {"accelerator": {"kind": kind, "count": 0} | figures}
