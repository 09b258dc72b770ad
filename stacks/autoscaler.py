"""The Cluster Autoscaler of a site: the role of its pods, and its Deployment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from gpufleet.components.cluster import EksCluster
from gpufleet.components.cluster_autoscaler import (
    ClusterAutoscaler,
    ClusterAutoscalerArgs,
    iam_statements,
)
from gpufleet.components.identity import PodRole, PodRoleArgs
from gpufleet.kinds import CLUSTER_AUTOSCALER
from gpufleet.plan.autoscaler import AutoscalerPlan
from gpufleet.plan.capacity_models import SpotPlan
from gpufleet.plan.models import CloudSitePlan
from gpufleet.plan.names import AUTOSCALER_SUFFIX, FALLBACK_SUFFIX, SYSTEM

SYSTEM_FIRST, SPOT, ON_DEMAND, FALLBACK = 40, 30, 20, 10
"""Priorities. Pods that need no accelerator run on system nodes; a fallback is for a shortage of spot."""


def build_autoscaler_role(
    name: str, site: CloudSitePlan, cluster: EksCluster | None, opts: pulumi.ResourceOptions
) -> PodRole | None:
    """Create the role of the autoscaler's pods; None for a site without an autoscaler."""
    if cluster is None or site.kubernetes is None or site.kubernetes.autoscaler is None:
        return None
    return PodRole(
        f"{name}{AUTOSCALER_SUFFIX}",
        PodRoleArgs(
            cluster_name=cluster.cluster_name,
            namespace="kube-system",
            service_account=CLUSTER_AUTOSCALER,
            statements=iam_statements(cluster.cluster_name, name, cluster.aws_context()),
            tags=site.tags,
        ),
        opts,
    )


def build_autoscaler(
    name: str,
    site: CloudSitePlan,
    plan: AutoscalerPlan,
    cluster: EksCluster,
    role: PodRole,
    opts: pulumi.ResourceOptions,
) -> ClusterAutoscaler:
    """Deploy the autoscaler once its pods get credentials: they do when they start."""
    return ClusterAutoscaler(
        f"{name}{AUTOSCALER_SUFFIX}",
        ClusterAutoscalerArgs(
            cluster_name=cluster.cluster_name,
            region=site.region,
            image=plan.image,
            scale_down=plan.scale_down,
            scale_down_after_s=plan.scale_down_after_s,
            expander=plan.expander,
            priorities=priorities(name, site),
            labels={"gpufleet.io/site": site.site},
        ),
        pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[role.association])),
    )


def priorities(name: str, site: CloudSitePlan) -> Mapping[int, Sequence[str]]:
    """Return the names of a site's node groups by priority: the beginning of those in AWS."""
    found: dict[int, list[str]] = {}
    if site.kubernetes is not None and site.kubernetes.scales_system_nodes:
        found[SYSTEM_FIRST] = [f"{name}-{SYSTEM}"]
    for group in site.node_groups:
        if group.autoscaled is None:
            continue
        label, spot = f"{name}-{group.name}", isinstance(group.capacity, SpotPlan)
        found.setdefault(SPOT if spot else ON_DEMAND, []).append(label)
        if isinstance(group.capacity, SpotPlan) and group.capacity.on_demand_fallback:
            found.setdefault(FALLBACK, []).append(f"{label}{FALLBACK_SUFFIX}")
    return found
