"""Karpenter of an EKS site, and the node pools that take the place of node groups.

Sources: aws/karpenter-provider-aws v1.14.1 and sigs.k8s.io/karpenter v1.14.1: the definitions in
pkg/apis/crds, scheduling/scheduler.go (limits), static/provisioning/controller.go (nodes that always run).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from gpufleet.catalog import InstanceType
from gpufleet.catalog.models import SoftwareLock
from gpufleet.kinds import KARPENTER_IMAGE, ChangedNodes
from gpufleet.plan.accelerators import RESOURCES, AcceleratorPlan
from gpufleet.plan.autoscaler import can_scale
from gpufleet.plan.capacity_models import (
    CapacityBlockPlan,
    CapacityPlan,
    ExistingBlockPlan,
    ExistingReservationPlan,
    OnDemandPlan,
    ReservationPlan,
    SpotPlan,
)
from gpufleet.spec.autoscaler import Autoscaler
from gpufleet.spec.models import CloudSite, Kubernetes

CapacityType = Literal["reserved", "spot", "on-demand"]

SELECTED = ReservationPlan | ExistingReservationPlan | CapacityBlockPlan | ExistingBlockPlan
"""What a node class can select, by its id. It has no selector for a resource group of reservations."""

NODES = "nodes"
"""The limit of a pool's nodes. Karpenter does not count the nodes that it starts for one batch of pods
(`subtractMax`), but their vCPUs and devices: these are limited too."""

RESERVED_WEIGHT, SPOT_WEIGHT, ON_DEMAND_WEIGHT = 30, 20, 10
"""Karpenter tries the pool with the higher weight first: what is paid for, then spot, which is cheaper."""


class KarpenterPlan(Struct, frozen=True):
    """Karpenter of a site: the version of its chart of definitions, its image, whether a group has nodes that
    always run, which takes its feature StaticCapacity (alpha), and whether it launches into reservations
    (ReservedCapacity, beta)."""

    version: str
    image: str
    static_capacity: bool
    reserved_capacity: bool


class NodePoolPlan(Struct, frozen=True):
    """A node group that Karpenter scales.

    It has at most `most` nodes, and `always` of them without a pod, too: a pool of their own. `limits` are
    those of the others, by resource. `capacity_types` are in Karpenter's order. A node ends after
    `ends_after_s` without work, never if None; with `moves_pods` also one whose pods fit elsewhere.
    """

    always: int
    most: int
    limits: Mapping[str, int]
    capacity_types: tuple[CapacityType, ...]
    weight: int
    moves_pods: bool
    ends_after_s: int | None
    changed_nodes: ChangedNodes

    @property
    def falls_back(self) -> bool:
        """Whether it buys on-demand where there is no spot."""
        return len(self.capacity_types) > 1

    @property
    def reserved(self) -> bool:
        """Whether its nodes run in a reservation or Capacity Block, and nowhere else."""
        return self.capacity_types == ("reserved",)


class _Group(Protocol):
    """A node group of a plan."""

    @property
    def node_pool(self) -> NodePoolPlan | None:
        """Its node pool."""


def has_karpenter(site: CloudSite) -> bool:
    """Whether Karpenter scales node groups of a site."""
    return _wanted(site) is not None


def _wanted(site: CloudSite) -> Autoscaler | None:
    """The settings of Karpenter of a site; None without one."""
    if site.kubernetes is None or site.scheduler != "kubernetes":
        return None
    wanted = site.kubernetes.autoscaler
    return wanted if wanted is not None and wanted.kind == "karpenter" else None


def plan_karpenter(
    settings: Kubernetes, lock: SoftwareLock, groups: Iterable[_Group]
) -> KarpenterPlan | None:
    """Karpenter of a site with these groups; None if the fleet file does not ask for it."""
    if settings.autoscaler is None or settings.autoscaler.kind != "karpenter":
        return None
    pools = [group.node_pool for group in groups if group.node_pool is not None]
    return KarpenterPlan(
        version=lock.karpenter,
        image=f"{KARPENTER_IMAGE}:{lock.karpenter}@{lock.karpenter_digest}",
        static_capacity=any(pool.always for pool in pools),
        reserved_capacity=any(pool.reserved for pool in pools),
    )


def plan_node_pool(
    site: CloudSite,
    capacity: CapacityPlan,
    types: Sequence[InstanceType],
    accelerator: AcceleratorPlan | None,
    *,
    drawn: bool,
) -> NodePoolPlan | None:
    """The node pool in the place of a group; None for one of fixed size, or of an order, and for one in a
    reservation unless the fleet file wants pools for these."""
    wanted = _wanted(site)
    if wanted is None:
        return None
    in_pool = wanted.reserved_nodes == "node-pools" and isinstance(capacity, SELECTED)
    if drawn or not (in_pool or can_scale(capacity)):
        return None
    always = 0 if in_pool else capacity.min
    after = int(wanted.scale_down_after.delta.total_seconds())
    return NodePoolPlan(
        always=always,
        most=capacity.max,
        limits=_limits(capacity.max - always, types),
        capacity_types=_capacity_types(capacity),
        weight=_weight(capacity),
        # A job on accelerators loses hours when it moves.
        moves_pods=accelerator is None,
        ends_after_s=after if wanted.scale_down else None,
        changed_nodes=wanted.changed_nodes,
    )


def _capacity_types(capacity: CapacityPlan) -> tuple[CapacityType, ...]:
    match capacity:
        case SpotPlan(on_demand_fallback=True):
            return "spot", "on-demand"
        case SpotPlan():
            return ("spot",)
        case OnDemandPlan():
            return ("on-demand",)
    return ("reserved",)


def _weight(capacity: CapacityPlan) -> int:
    if isinstance(capacity, SpotPlan):
        return SPOT_WEIGHT
    return ON_DEMAND_WEIGHT if isinstance(capacity, OnDemandPlan) else RESERVED_WEIGHT


def node_size(instance: InstanceType) -> dict[str, int]:
    """Return what limits count of a node of the type: its vCPUs and its whole devices."""
    found = instance.accelerator
    devices = {RESOURCES[found.kind]: found.count} if found is not None and found.count else {}
    return {"cpu": instance.vcpus, **devices}


def _limits(nodes: int, types: Sequence[InstanceType]) -> dict[str, int]:
    """Return the limits of that many nodes: of what all types have, for the largest of them."""
    sizes = [node_size(each) for each in types]
    counted = [name for name in sizes[0] if all(name in each for each in sizes)]
    found = {name: nodes * max(each[name] for each in sizes) for name in counted}
    return {NODES: nodes, **found} if nodes else {}
