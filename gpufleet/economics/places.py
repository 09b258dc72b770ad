"""What a calculator runs on: a GPU with its memory, peak throughput and price, from the catalog."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from gpufleet.catalog import Catalog
from gpufleet.catalog.catalog import nearest
from gpufleet.catalog.gpu_speeds import gpu_speeds
from gpufleet.economics.quantities import GIB
from gpufleet.errors import InputError
from gpufleet.kinds import CapacityKind
from gpufleet.pricing.rates import Prices, UnpricedError, settle


class HourlyRate(Struct, frozen=True):
    """USD per GPU-hour with its range. `amount` is None if no price is known; `reason` then says why."""

    minimum: Decimal | None
    amount: Decimal | None
    maximum: Decimal | None
    source: str = ""
    date: str | None = None
    note: str = ""
    reason: str = ""


class GpuPlace(Struct, frozen=True):
    """A GPU in an instance type or system. `memory_bytes` and `peak_flops` are None if unknown."""

    name: str
    gpu: str
    gpus_per_node: int
    memory_bytes: float | None
    peak_flops: float | None
    peak_source: str
    instance_type: str | None

    def need_memory(self) -> float:
        """Return the memory of a GPU. Raises InputError if it is not known."""
        if self.memory_bytes is None:
            raise InputError(f"{self.name}: its GPU memory is not known", remedy="name an instance type")
        return self.memory_bytes


def place_of(catalog: Catalog, name: str) -> GpuPlace:
    """Return the place of an instance type (`p5.48xlarge`), system (`dgx-h100`), or GPU (`H100`).

    A GPU stands for the instance type that has most of them. Raises InputError for unknown names.
    """
    if name in catalog.instances:
        item = catalog.instances[name]
        if not item.gpu_count or item.gpu is None:
            raise InputError(f"{name} has no whole GPU", remedy="name a type with GPUs, such as p5.48xlarge")
        return _place(name, item.gpu, item.gpu_count, item.gpu_memory_gib, name)
    if name in catalog.systems:
        system = catalog.systems[name]
        return _place(name, system.gpu, system.gpus, system.gpu_memory_gib, None)
    gpus = sorted({item.gpu for item in catalog.instances.values() if item.gpu and item.gpu_count})
    found = [gpu for gpu in gpus if gpu.casefold() == name.casefold()]
    if not found:
        guess = nearest(name, [*gpus, *catalog.instances, *catalog.systems])
        raise InputError(
            f"unknown GPU, instance type or system {name!r}"
            + (f"; did you mean {guess!r}?" if guess else ""),
            remedy="`gpufleet catalog` lists instance types, `gpufleet catalog systems` systems",
        )
    holders = [item for item in catalog.instances.values() if item.gpu == found[0] and item.gpu_count]
    most = max(holders, key=lambda item: (item.gpu_count, item.gpu_memory_gib or 0, item.name))
    return _place(found[0], found[0], most.gpu_count, most.gpu_memory_gib, most.name)


def gpu_hour(catalog: Catalog, place: GpuPlace, region: str, kind: CapacityKind = "on-demand") -> HourlyRate:
    """Return what an hour of one GPU costs in a region, with nodes bought as `kind`."""
    if place.instance_type is None:
        return HourlyRate(None, None, None, reason=f"{place.name} is not sold by the hour")
    try:
        rate = Prices(catalog, region).node(place.instance_type, kind).divided(place.gpus_per_node)
    except UnpricedError as error:
        return HourlyRate(None, None, None, reason=str(error))
    note = f"{place.instance_type}, {kind}, {region}" + (f": {rate.note}" if rate.note else "")
    return HourlyRate(
        settle(rate.low), settle(rate.expected), settle(rate.high), rate.source, rate.date, note
    )


def _place(name: str, gpu: str, count: int, memory_gib: float | None, instance: str | None) -> GpuPlace:
    speed = gpu_speeds().get(gpu)
    return GpuPlace(
        name=name,
        gpu=gpu,
        gpus_per_node=count,
        memory_bytes=None if memory_gib is None else memory_gib * GIB,
        peak_flops=None if speed is None else speed.tflops * 1e12,
        peak_source="" if speed is None else "; ".join(part for part in (speed.source, speed.note) if part),
        instance_type=instance,
    )
