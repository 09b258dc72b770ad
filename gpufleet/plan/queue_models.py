"""The queues of an EKS site, as the plan has them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gpufleet.plan.rack_models import TaintPlan


class FlavorPlan(Struct, frozen=True):
    """Nodes whose devices are alike for jobs: those of `node_groups`, with `labels` and `taints`.

    `devices` are theirs at their maximum, each `per_device` of `resource`, which pods request: more than one
    where GPUs are shared or divided. `topology` has the labels of the network
    layers above a node, from the top one to the node; empty if Kueue does not place pods by them.
    """

    name: str
    node_groups: tuple[str, ...]
    labels: Mapping[str, str]
    taints: tuple[TaintPlan, ...]
    resource: str
    devices: int
    per_device: int
    topology: tuple[str, ...]


class QueuesPlan(Struct, frozen=True):
    """Kueue of the version `kueue`, the controllers of `jobset` and `leader_worker_set` (None if left out),
    and `guaranteed`: whole devices of each flavor that a team gets at any time, by team."""

    kueue: str
    jobset: str | None
    leader_worker_set: str | None
    flavors: tuple[FlavorPlan, ...]
    guaranteed: Mapping[str, Mapping[str, int]]
