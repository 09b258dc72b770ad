"""Karpenter's node pools of a stack, with their node classes: types, purchase options, limits.

Karpenter chooses among the instance types of a pool, so only a pool that lists them has a bounded cost. It
does not count the nodes of one batch of pods against `limits.nodes` (karpenter v1.14.1, `subtractMax`): what
bounds a pool is a limit of vCPUs or devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from gpufleet.resources.launch_inputs import Number, number
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import NODE_CLASS, NODE_POOL

TYPE_KEY = "node.kubernetes.io/instance-type"
ZONE_KEY = "topology.kubernetes.io/zone"
CAPACITY_KEY = "karpenter.sh/capacity-type"
RESERVATION_KEY = "karpenter.k8s.aws/capacity-reservation-type"
RESERVATION_TERMS = "spec.capacityReservationSelectorTerms"
ALL_CAPACITY = ("reserved", "spot", "on-demand")
"""What a pool without a requirement may buy."""

POOL_REQUIREMENTS = "spec.template.spec.requirements"
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d+")


WORKLOAD_LABEL = "gpufleet.io/workload"
"""The label of nodes with what they are for."""


class Pool(Struct, frozen=True):
    """A node pool. `types` are the instance types that it lists, None if it does not list them (or if they
    are not known yet), and so are `zones`, `capacity_types` and `reservation_types` (`default`,
    `capacity-block`). `replicas` is the number of nodes of a static pool, None for one that pods grow.
    `node_class` is None if it is not in this stack.
    """

    resource: Resource
    node_class: Resource | None
    types: tuple[str, ...] | None
    zones: tuple[str, ...] | None
    capacity_types: tuple[str, ...] | None
    reservation_types: tuple[str, ...] | None
    replicas: Number | None
    limits: Mapping[str, Number]

    @property
    def region(self) -> str | None:
        """The region of its zones; None if it is not known."""
        found = {match[0] for zone in self.zones or () if (match := _REGION.match(zone))}
        return found.pop() if len(found) == 1 else None

    @property
    def tags(self) -> Any:
        """The tags of its instances, volumes and interfaces: those of its node class."""
        return self.node_class.get("spec.tags") if self.node_class is not None else None

    def most(self, size: Mapping[str, int]) -> Number:
        """Return how many nodes of a size (`gpufleet.plan.karpenter.node_size`) it may have; UNKNOWN if no
        limit bounds them."""
        if self.replicas is not None:
            return self.replicas
        found: list[int] = []
        for name, limit in self.limits.items():
            if size.get(name) and limit is not UNKNOWN:
                found.append(max(limit, 0) // size[name])
        return min(found) if found else UNKNOWN


def node_pools(stack: Stack) -> Iterator[Pool]:
    """Yield the node pools of a stack."""
    for resource in stack.of_type(NODE_POOL):
        yield read_pool(stack, resource)


def read_pool(stack: Stack, resource: Resource) -> Pool:
    """Return one node pool."""
    replicas = resource.get("spec.replicas")
    limits = resource.get("spec.limits")
    return Pool(
        resource=resource,
        node_class=_node_class(stack, resource),
        types=_values(resource, TYPE_KEY),
        zones=_values(resource, ZONE_KEY),
        capacity_types=_values(resource, CAPACITY_KEY, ALL_CAPACITY),
        reservation_types=_values(resource, RESERVATION_KEY),
        replicas=None if replicas is None else number(replicas),
        limits={str(name): number(value) for name, value in limits.items()}
        if isinstance(limits, Mapping)
        else {},
    )


def label_of(pool: Resource, key: str) -> str:
    """Return a label of a pool's nodes; empty if it is not set or not known."""
    labels = pool.get("spec.template.metadata.labels")
    value = labels.get(key) if isinstance(labels, Mapping) else None
    return value if isinstance(value, str) else ""


def root_volumes(node_class: Resource) -> Iterator[tuple[str, Any]]:
    """Yield (path, entry) of each block device that a node class maps."""
    yield from node_class.items("spec.blockDeviceMappings")


def _node_class(stack: Stack, pool: Resource) -> Resource | None:
    """Return the node class that a pool names, in the same cluster."""
    name = pool.get("spec.template.spec.nodeClassRef.name")
    found = [
        each
        for each in stack.of_type(NODE_CLASS)
        if each.get("metadata.name") == name and _cluster(each) == _cluster(pool)
    ]
    return found[0] if len(found) == 1 and isinstance(name, str) else None


def _cluster(resource: Resource) -> str:
    return resource.provider.urn if resource.provider is not None else ""


def _values(resource: Resource, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...] | None:
    """Return the values that a requirement allows, `default` without one, None if they are not listed."""
    found: list[str] | None = None
    for _, need in resource.items(POOL_REQUIREMENTS):
        if not isinstance(need, Mapping):
            return None
        if need.get("key") != key:
            continue
        values = need.get("values")
        if need.get("operator") != "In" or not isinstance(values, list | tuple):
            return None
        if not all(isinstance(each, str) for each in values):
            return None
        found = [each for each in dict.fromkeys(values) if found is None or each in found]
    return default if found is None else tuple(found)
