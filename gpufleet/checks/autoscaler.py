"""The autoscaler of a Kubernetes site: nodes that it can add or end, and how fast it does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check
from gpufleet.plan.ordered_capacity import drawn_groups
from gpufleet.spec.models import (
    Autoscaler,
    CapacityBlock,
    CloudSite,
    Kubernetes,
    NodeGroup,
    OnDemand,
    OnDemandReservation,
    Spot,
)

SHORTEST = timedelta(minutes=1)
"""Below it nodes end between the pods of one job: the autoscaler looks every 10 s (`--scan-interval`), and at
AWS once a minute."""


@check("scale-down-after")
def scale_down_after(fleet: Fleet) -> Iterator[FieldFinding]:
    """A GPU node takes minutes to start. One that ends as soon as nothing runs on it is missing when the next
    pod of the same job waits."""
    for path, site, _, wanted in _installed(fleet):
        if wanted.scale_down and wanted.scale_down_after.delta < SHORTEST:
            yield FieldFinding(
                (*path, "kubernetes", "autoscaler", "scale_down_after"),
                f"site {site.site!r} ends nodes after {wanted.scale_down_after} without work",
                "write '1 min' or more; '10 min' is the default",
            )


@check("autoscaler-of-nothing", "ordered_capacity")
def autoscaler_of_nothing(fleet: Fleet) -> Iterator[FieldFinding]:
    """The autoscaler sets sizes between `min` and `max` of on-demand and spot groups. A Capacity Block has
    its dates, a reservation its size (but with `reserved_nodes: node-pools`), and the groups of an order
    belong to the order. Karpenter launches no system nodes: it runs on them."""
    for path, site, settings, wanted in _installed(fleet):
        system = settings.system_nodes
        scales_system = wanted.kind == "cluster-autoscaler" and system.min < system.max
        groups = [*scaled_groups(fleet, site), *reserved_pools(fleet, site)]
        if not groups and not scales_system:
            yield FieldFinding(
                (*path, "kubernetes", "autoscaler"),
                f"no node group of site {site.site!r} has a size that can change",
                "remove `autoscaler`, or give an on-demand or spot group a `min` below its `max`",
                "warning",
                value=site.site,
            )


@check("autoscaler-field")
def autoscaler_fields(fleet: Fleet) -> Iterator[FieldFinding]:
    """Some settings are those of one autoscaler only. Karpenter chooses the cheapest type that has room, and
    EKS replaces the changed nodes of a node group one at a time."""
    for path, _, _, wanted in _installed(fleet):
        where = (*path, "kubernetes", "autoscaler")
        if wanted.kind == "karpenter" and wanted.expander != "least-waste":
            yield FieldFinding(
                (*where, "expander"),
                f"expander: {wanted.expander} has no effect with kind: karpenter",
                "remove it, or write `kind: cluster-autoscaler`",
            )
        if wanted.kind == "cluster-autoscaler" and wanted.changed_nodes != "one-at-a-time":
            yield FieldFinding(
                (*where, "changed_nodes"),
                f"changed_nodes: {wanted.changed_nodes} has no effect with kind: cluster-autoscaler",
                "remove it, or write `kind: karpenter`",
            )
        if wanted.kind == "cluster-autoscaler" and wanted.reserved_nodes != "node-groups":
            yield FieldFinding(
                (*where, "reserved_nodes"),
                f"reserved_nodes: {wanted.reserved_nodes} has no effect with kind: cluster-autoscaler",
                "remove it, or write `kind: karpenter`",
            )


def _installed(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, Kubernetes, Autoscaler]]:
    for path, site in fleet.cloud():
        settings = site.kubernetes
        if site.scheduler != "kubernetes" or settings is None or settings.autoscaler is None:
            continue
        if settings.autoscaler.kind != "none":
            yield path, site, settings, settings.autoscaler


def scaled_groups(fleet: Fleet, site: CloudSite) -> Iterator[tuple[int, NodeGroup, OnDemand | Spot]]:
    """Yield (index, group, how it is bought) of each group whose size can change."""
    drawn = drawn_groups(fleet.spec)
    for index, group in enumerate(site.node_groups):
        option = group.capacity.option
        if (site.site, group.name) in drawn or not isinstance(option, OnDemand | Spot):
            continue
        if option.min < option.max or (isinstance(option, Spot) and option.falls_back):
            yield index, group, option


def reserved_pools(fleet: Fleet, site: CloudSite) -> Iterator[tuple[int, NodeGroup]]:
    """Yield (index, group) of each group whose reservation or Capacity Block Karpenter launches into."""
    wanted = site.kubernetes.autoscaler if site.kubernetes is not None else None
    if wanted is None or wanted.kind != "karpenter" or wanted.reserved_nodes != "node-pools":
        return
    drawn = drawn_groups(fleet.spec)
    for index, group in enumerate(site.node_groups):
        option = group.capacity.option
        selected = isinstance(option, CapacityBlock) or (
            isinstance(option, OnDemandReservation) and option.group is None
        )
        if selected and (site.site, group.name) not in drawn:
            yield index, group


CHECKS = (scale_down_after, autoscaler_of_nothing, autoscaler_fields)
