"""The accelerators of a node group's nodes, and what schedulers call them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpufleet.catalog import InstanceType
from gpufleet.catalog.accelerator import AcceleratorKind
from gpufleet.kinds import GPU_RESOURCE, NEURON_RESOURCE

RESOURCES: dict[AcceleratorKind, str] = {"gpu": GPU_RESOURCE, "neuron": NEURON_RESOURCE}
"""What pods request of each kind, and the key of the nodes' taint."""


class AcceleratorPlan(Struct, frozen=True):
    """The GPUs or Neuron devices of a node: `count` whole ones (0 for a fraction of one), with `memory_gib`
    each, None if unknown. `cores` are the NeuronCores of a device.

    `resource` is what pods request on Kubernetes, `gres` the generic resource of a Slurm node; empty where
    the site has the other scheduler.
    """

    kind: AcceleratorKind
    name: str
    count: int
    memory_gib: float | None
    cores: int | None
    resource: str
    gres: str


def plan_accelerator(
    instance: InstanceType, scheduler: Literal["kubernetes", "slurm"]
) -> AcceleratorPlan | None:
    """Return the accelerators of an instance type in a site with `scheduler`; None if it has none."""
    found = instance.accelerator
    if found is None:
        return None
    on_slurm = scheduler == "slurm"
    return AcceleratorPlan(
        kind=found.kind,
        name=found.name,
        count=found.count,
        memory_gib=found.memory_gib,
        cores=found.cores,
        resource="" if on_slurm else RESOURCES[found.kind],
        gres=f"{found.kind}:{found.name.lower()}:{found.count}" if on_slurm and found.count else "",
    )
