"""Queues of an EKS site: something to share out, and what Kueue can hold."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check
from gpufleet.spec.models import CloudSite, Kubernetes, Queues

MOST_FLAVORS = 64
"""Flavors of a resource in a queue (Kueue v0.19.2, definition of ClusterQueue)."""


@check("queues-of-nothing")
def queues_of_nothing(fleet: Fleet) -> Iterator[FieldFinding]:
    """Each team has a queue, and each group of nodes with GPUs or Neuron devices a quota in it: without
    either, Kueue shares out nothing."""
    for path, site, settings, _ in _installed(fleet):
        missing = "no team" if not settings.teams else "" if _devices(fleet, site) else "no node with devices"
        if missing:
            yield FieldFinding(
                (*path, "kubernetes", "queues"),
                f"the queues of site {site.site!r} have {missing}",
                "declare teams under `kubernetes.teams` and a node group with GPUs or Neuron devices, or"
                " remove `queues`",
                "warning",
                value=site.site,
            )


@check("queues-flavors", "node_groups")
def queues_flavors(fleet: Fleet) -> Iterator[FieldFinding]:
    """A queue of Kueue has at most 64 flavors of a resource: one for each node group, and one for each
    order of `ordered_capacity`."""
    for path, site, _, _ in _installed(fleet):
        for kind, count in _devices(fleet, site).items():
            if count > MOST_FLAVORS:
                yield FieldFinding(
                    (*path, "kubernetes", "queues"),
                    f"site {site.site!r} has {count} node groups and orders with {kind}, and a queue holds"
                    f" {MOST_FLAVORS}",
                    "merge node groups, or remove `queues`",
                    value=count,
                )


@check("queues-none")
def queues_none(fleet: Fleet) -> Iterator[FieldFinding]:
    """The controllers of JobSet and LeaderWorkerSet are part of the queues: with `kind: none` nothing is
    installed."""
    for path, site in fleet.cloud():
        queues = site.kubernetes.queues if site.kubernetes is not None else None
        if queues is None or queues.kind != "none":
            continue
        for name in ("jobset", "leader_worker_set"):
            if getattr(queues, name):
                yield FieldFinding(
                    (*path, "kubernetes", "queues", name),
                    f"site {site.site!r} has no queues, and so no controller of {name}",
                    f"remove '{name}', or write 'kind: kueue'",
                )


def _installed(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, Kubernetes, Queues]]:
    for path, site in fleet.cloud():
        settings = site.kubernetes
        if site.scheduler != "kubernetes" or settings is None or settings.queues is None:
            continue
        if settings.queues.kind == "kueue":
            yield path, site, settings, settings.queues


def _devices(fleet: Fleet, site: CloudSite) -> dict[str, int]:
    """Return the number of flavors by kind of device."""
    order_of = {name: order.name for order in site.ordered_capacity for name in order.groups}
    names: dict[str, set[tuple[str, str]]] = {}
    for group in site.node_groups:
        for kind in {each.accelerator.kind for each in fleet.types(group) if each.accelerator}:
            order = order_of.get(group.name)
            flavor = ("group", group.name) if order is None else ("order", order)
            names.setdefault({"gpu": "GPUs", "neuron": "Neuron devices"}[kind], set()).add(flavor)
    return {kind: len(found) for kind, found in names.items()}


CHECKS = (queues_of_nothing, queues_flavors, queues_none)
