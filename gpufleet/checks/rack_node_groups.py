"""Node groups of rack sites with Kubernetes: their nodes, labels, MIG layouts and sharing of GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.labels import key_problem, value_problem
from gpufleet.checks.rack_hosts import apart
from gpufleet.checks.rack_kubernetes import kubernetes_sites
from gpufleet.checks.rules import FieldFinding, Fleet, check, listed
from gpufleet.plan.rack_kubernetes import DEFAULT_GROUP, plan_groups


@check("kubernetes-groups")
def kubernetes_groups(fleet: Fleet) -> Iterator[FieldFinding]:
    """A node group has GPU nodes of its site. A node is in one group, which sets its labels and GPU
    sharing."""
    for path, site in kubernetes_sites(fleet):
        groups = site.kubernetes.node_groups
        yield from apart((*path, "kubernetes", "node_groups"), site, groups, "node group")
        rest = set(site.nodes.hosts) - {host for group in groups for host in group.nodes.hosts}
        for index, group in enumerate(groups):
            if group.name == DEFAULT_GROUP and rest:
                yield FieldFinding(
                    (*path, "kubernetes", "node_groups", index, "name"),
                    f"{DEFAULT_GROUP!r} is the default group of the {len(rest)} nodes without a group",
                    "use another name, or add all of these nodes to the group",
                )


@check("kubernetes-labels")
def kubernetes_labels(fleet: Fleet) -> Iterator[FieldFinding]:
    """Kubernetes rejects invalid labels and taints, and reserves some prefixes."""
    remedy = "use letters, digits, '-', '_' and '.', with a prefix of your own such as 'example.com/'"
    for path, site in kubernetes_sites(fleet):
        for index, group in enumerate(site.kubernetes.node_groups):
            where = (*path, "kubernetes", "node_groups", index)
            for key, value in group.labels.items():
                if (wrong := key_problem(key) or value_problem(value, 0)) is not None:
                    yield FieldFinding((*where, "labels", key), f"label '{key}': {wrong}", remedy, value=key)
            seen: set[tuple[str, str]] = set()
            for place, taint in enumerate(group.taints):
                if (wrong := key_problem(taint.key) or value_problem(taint.value, 0)) is not None:
                    yield FieldFinding(
                        (*where, "taints", place, "key"), f"taint '{taint.key}': {wrong}", remedy
                    )
                if (taint.key, taint.effect) in seen:
                    yield FieldFinding(
                        (*where, "taints", place),
                        f"taint '{taint.key}' with effect {taint.effect} is listed twice",
                        "keep one",
                        value=taint.key,
                    )
                seen.add((taint.key, taint.effect))


@check("kubernetes-mig", "kubernetes", "node_groups")
def kubernetes_mig(fleet: Fleet) -> Iterator[FieldFinding]:
    """Quotas count the GPUs of a node group as one resource. All of them must have the same MIG layout with
    one profile (resource names of the device plugin's MIG strategy `mixed`)."""
    for path, site in kubernetes_sites(fleet):
        for index, layout in enumerate(site.mig or ()):
            where = (*path, "mig", index)
            if layout.gpus:
                yield FieldFinding(
                    (*where, "gpus"),
                    f"only some GPUs of {layout.nodes.text} have a MIG layout; a node needs one kind of GPU",
                    "remove `gpus` to apply the layout to all GPUs of these nodes",
                    value=list(layout.gpus),
                )
            if len(layout.profiles) > 1:
                yield FieldFinding(
                    (*where, "profiles"),
                    f"GPUs of {layout.nodes.text} have instances of {listed(list(layout.profiles))}",
                    "use one profile, or a separate node group for each",
                    value=", ".join(layout.profiles),
                )
            divided = set(layout.nodes.hosts)
            for group in plan_groups(site):
                inside = [node for node in group.hosts if node in divided]
                if inside and len(inside) < group.nodes:
                    yield FieldFinding(
                        (*where, "nodes"),
                        f"{len(inside)} of {group.nodes} nodes of node group {group.name!r} have a MIG"
                        " layout",
                        "apply the layout to all nodes of the group, or move them to a separate group",
                        value=layout.nodes.text,
                    )


@check("kubernetes-sharing")
def kubernetes_sharing(fleet: Fleet) -> Iterator[FieldFinding]:
    """NVIDIA's device plugin can share a MIG device by time slicing but not by MPS (k8s-device-plugin README,
    "With CUDA MPS")."""
    for path, site in kubernetes_sites(fleet):
        divided = {host: layout for layout in site.mig or () for host in layout.nodes.hosts}
        for index, group in enumerate(site.kubernetes.node_groups):
            layouts = [divided[host] for host in group.nodes.hosts if host in divided]
            if layouts and group.gpu_sharing is not None and group.gpu_sharing.mps:
                yield FieldFinding(
                    (*path, "kubernetes", "node_groups", index, "gpu_sharing"),
                    f"node group {group.name!r} uses both MPS and MIG ({', '.join(layouts[0].profiles)})",
                    "keep one of them, or use time_slicing",
                    value=group.name,
                )


CHECKS = (kubernetes_groups, kubernetes_labels, kubernetes_mig, kubernetes_sharing)
