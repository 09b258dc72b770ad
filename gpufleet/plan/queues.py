"""Kueue of an EKS site: the flavors of its nodes, their topology in EC2's network, and quotas of teams."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from gpufleet.catalog.models import SoftwareLock
from gpufleet.catalog.network_layers import LAYER_LABEL, network_layers
from gpufleet.kinds import NEURON_RESOURCE
from gpufleet.plan.autoscaler import can_scale
from gpufleet.plan.gpu_quotas import GpuPool
from gpufleet.plan.kubernetes_models import TeamPlan
from gpufleet.plan.kueue import GPU_SUM, NEURON_SUM, Devices, Flavor, Object, kueue_objects, kueue_values
from gpufleet.plan.marks import LABEL_PREFIX
from gpufleet.plan.models import AcceleratorPlan, NodeGroupPlan
from gpufleet.plan.ordered_capacity import OrderPlan
from gpufleet.plan.queue_models import FlavorPlan, QueuesPlan
from gpufleet.spec.models import CloudSite, Kubernetes
from gpufleet.spec.queues import Queues

HOSTNAME = "kubernetes.io/hostname"
GROUP_LABEL = f"{LABEL_PREFIX}node-group"
ORDER_LABEL = f"{LABEL_PREFIX}ordered-capacity"
"""The label of nodes that an order draws, where the site has queues: its groups are one flavor."""


def has_queues(site: CloudSite) -> bool:
    """Whether Kueue shares out the devices of a site."""
    return (
        site.kubernetes is not None and site.scheduler == "kubernetes" and _kueue(site.kubernetes) is not None
    )


def _kueue(settings: Kubernetes) -> Queues | None:
    """The settings of Kueue of a cluster; None without it."""
    wanted = settings.queues
    return wanted if wanted is not None and wanted.kind == "kueue" else None


def order_labels(site: CloudSite, group: str) -> dict[str, str]:
    """Further labels of a group's nodes: the order that draws from it, in a site with queues."""
    orders = [order.name for order in site.ordered_capacity if group in order.groups]
    return {ORDER_LABEL: orders[0]} if orders and has_queues(site) else {}


def plan_queues(
    site: CloudSite,
    settings: Kubernetes,
    lock: SoftwareLock,
    teams: Sequence[TeamPlan],
    groups: Sequence[NodeGroupPlan],
    orders: Sequence[OrderPlan],
) -> QueuesPlan | None:
    """Kueue of a site with a cluster of these settings, with its flavors and guarantees; None if the fleet
    file has no queues."""
    wanted = _kueue(settings)
    if wanted is None:
        return None
    flavors = tuple(_flavors(site, settings, groups, orders, topology=wanted.topology))
    guaranteed: dict[str, dict[str, int]] = {team.name: {} for team in teams}
    for each in _devices(flavors, teams):
        for team, own in each.guaranteed().items():
            guaranteed[team] |= own
    return QueuesPlan(
        kueue=lock.kueue,
        jobset=lock.jobset if wanted.jobset else None,
        leader_worker_set=lock.lws if wanted.leader_worker_set else None,
        flavors=flavors,
        guaranteed=guaranteed,
    )


def queue_objects(site: str, plan: QueuesPlan, teams: Sequence[TeamPlan]) -> list[Object]:
    """Kueue's objects for the site; each comes after those that it names."""
    levels = {_topology(flavor): flavor.topology for flavor in plan.flavors if flavor.topology}
    return kueue_objects(site, [team.name for team in teams], _devices(plan.flavors, teams), levels)


def queue_values(plan: QueuesPlan, teams: Sequence[TeamPlan], replicas: int) -> Object:
    """Values of Kueue's chart: it runs on system nodes."""
    return kueue_values(
        _devices(plan.flavors, teams), plan.kueue, replicas=replicas, node_selector={GROUP_LABEL: "system"}
    )


def _flavors(
    site: CloudSite,
    settings: Kubernetes,
    groups: Sequence[NodeGroupPlan],
    orders: Sequence[OrderPlan],
    *,
    topology: bool,
) -> Iterator[FlavorPlan]:
    """One flavor per group with devices, and one per order: no more nodes than it draws have a quota."""
    drawn = {name for order in orders for name in order.expected}
    equipped = [(group, group.accelerator) for group in groups if group.accelerator is not None]
    for group, device in equipped:
        if group.name not in drawn:
            # Nodes that a program adds for pods do not exist when Kueue looks for a place.
            scaled = settings.autoscaler is not None and can_scale(group.capacity)
            grows = scaled or group.node_pool is not None
            labels, nodes = {GROUP_LABEL: group.name}, group.capacity.max
            yield _flavor(site, group.name, [(group, device)], labels, nodes, placed=topology and not grows)
    for order in orders:
        kinds: dict[str, list[tuple[NodeGroupPlan, AcceleratorPlan]]] = {}
        for group, device in equipped:
            if group.name in order.expected:
                kinds.setdefault(device.kind, []).append((group, device))
        for kind, members in kinds.items():
            # A name with a dot is no group's.
            name = f"ordered.{order.name}" + (f".{kind}" if len(kinds) > 1 else "")
            labels = {ORDER_LABEL: order.name}
            if len(kinds) > 1:
                key = f"{LABEL_PREFIX}{kind}"
                labels[key] = members[0][0].labels[key]
            yield _flavor(site, name, members, labels, order.nodes, placed=topology)


def _flavor(
    site: CloudSite,
    name: str,
    equipped: Sequence[tuple[NodeGroupPlan, AcceleratorPlan]],
    labels: Mapping[str, str],
    nodes: int,
    *,
    placed: bool,
) -> FlavorPlan:
    """`nodes` nodes of groups with devices; by topology if they are to be close together and all show their
    place."""
    groups = [group for group, _ in equipped]
    layers = set()
    for group in groups:
        close = group.efa or group.placement_group or group.capacity.kind == "capacity-block"
        layers |= {network_layers(each, site.region) if close else 0 for each in group.instance_types}
    deep = layers.pop() if placed and len(layers) == 1 else 0
    topology = (*(f"{LAYER_LABEL}{layer}" for layer in range(1, deep + 1)), HOSTNAME) if deep else ()
    taints = tuple(dict.fromkeys(taint for group in groups for taint in group.taints))
    if topology:
        # Kueue keeps labels, tolerations and topology of such a flavor for good: others are another flavor.
        facts = [dict(labels), [[each.key, each.value, each.effect] for each in taints], topology]
        name = f"{name}.{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:6]}"
    sharing = groups[0].gpu_sharing
    return FlavorPlan(
        name=name,
        node_groups=tuple(group.name for group in groups),
        labels=labels,
        taints=taints,
        resource=equipped[0][1].resource if sharing is None else sharing.resource,
        # A fraction of a GPU is one device.
        devices=nodes * min(max(device.count, 1) for _, device in equipped),
        per_device=1 if sharing is None else sharing.per_gpu,
        topology=topology,
    )


def _topology(flavor: FlavorPlan) -> str:
    return f"ec2-{len(flavor.topology) - 1}-layers" if flavor.topology else ""


def _devices(flavors: Sequence[FlavorPlan], teams: Sequence[TeamPlan]) -> list[Devices]:
    """GPUs and Neuron devices, each with the limits of the teams."""
    kinds = (
        (False, GPU_SUM, {team.name: team.gpus for team in teams}),
        (True, NEURON_SUM, {team.name: team.neuron_devices for team in teams}),
    )
    return [
        Devices(
            tuple(
                Flavor(
                    GpuPool(each.name, each.resource, each.per_device, each.devices),
                    each.labels,
                    each.taints,
                    _topology(each),
                )
                for each in flavors
                if (each.resource == NEURON_RESOURCE) is neuron
            ),
            limits,
            sum_resource,
        )
        for neuron, sum_resource, limits in kinds
    ]
