"""Karpenter of a site: the role of its pods, its Deployment, and the node pools of its groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import policy_document
from gpufleet.components.cluster import EksCluster
from gpufleet.components.identity import PodRole, PodRoleArgs
from gpufleet.components.karpenter import Karpenter, KarpenterArgs
from gpufleet.components.karpenter_rights import KarpenterRights, iam_statements, stop_statements
from gpufleet.components.node_group import BlockNodes, ReservedNodes
from gpufleet.components.node_pool import NodePool, NodePoolArgs, pool_names
from gpufleet.kinds import KARPENTER
from gpufleet.plan.capacity_models import SpotPlan
from gpufleet.plan.karpenter import KarpenterPlan, NodePoolPlan
from gpufleet.plan.models import CloudSitePlan, NodeGroupPlan
from gpufleet.plan.names import KARPENTER_SUFFIX, STOP_POLICY_SUFFIX
from gpufleet.plan.user_data import STRIPE_IN_EKS
from gpufleet.stacks.node_args import interface_args, node_image, node_labels, taint_args, volume_args
from gpufleet.stacks.node_groups import group_outputs
from gpufleet.stacks.purchases import Purchase, buy_capacity
from gpufleet.stacks.site_parts import SiteParts


@dataclass(frozen=True)
class KarpenterParts:
    """The role of Karpenter's pods, the parts of the site that its nodes need, and what groups in
    reservations and blocks launch into."""

    role: PodRole
    site: SiteParts
    reserved: Mapping[str, Purchase] = field(default_factory=dict)


def in_reserved_pool(group: NodeGroupPlan) -> bool:
    """Whether Karpenter starts the nodes of a group, in a reservation or Capacity Block and nowhere else."""
    return group.node_pool is not None and group.node_pool.reserved


def build_karpenter_role(
    name: str, site: CloudSitePlan, parts: SiteParts, *, stops: bool
) -> KarpenterParts | None:
    """Create the role of Karpenter's pods, None for a site without it, with the reservations that it launches
    into; and if a breach of the budget `stops` growth, a policy for each other group that then denies its
    launches.

    Role and policies have fixed names, by which the budget's function knows them.
    """
    cluster = parts.cluster
    if cluster is None or site.kubernetes is None or site.kubernetes.karpenter is None:
        return None
    pools = [group for group in site.node_groups if group.node_pool is not None]
    role = f"{name}{KARPENTER_SUFFIX}"
    denials: list[pulumi.Resource] = []
    for group in pools if stops else ():
        if in_reserved_pool(group):
            continue  # paid for, used or not
        label = f"{name}-{group.name}{STOP_POLICY_SUFFIX}"
        denials.append(
            aws.iam.Policy(
                label,
                name=label,
                description=f"Attached while a budget of {name}-{group.name} is spent: denies new nodes",
                policy=policy_document(stop_statements(group.name)),
                tags={**group.tags, "Name": label},
                # Two policies of one name cannot exist at once.
                opts=pulumi.ResourceOptions.merge(
                    parts.opts, pulumi.ResourceOptions(delete_before_replace=True)
                ),
            )
        )
    reserved = {
        group.name: buy_capacity(f"{name}-{group.name}", group, parts)
        for group in pools
        if in_reserved_pool(group)
    }
    subnets = {subnet: None for group in pools for subnet in _subnets(group, parts).values()}
    efa = [parts.network.efa_security_group_id] if any(group.efa for group in pools) else []
    made = PodRole(
        role,
        PodRoleArgs(
            cluster_name=cluster.cluster_name,
            namespace="kube-system",
            service_account=KARPENTER,
            statements=iam_statements(
                KarpenterRights(
                    cluster=name,
                    node_role_arn=parts.roles.node_role_arn,
                    subnet_ids=list(subnets),
                    security_group_ids=[parts.client_group, *efa],
                    reservation_ids=[_reservation_id(each) for each in reserved.values()],
                    spot=any(isinstance(group.capacity, SpotPlan) for group in pools),
                ),
                cluster.aws_context(),
            ),
            role_name=role,
            after=denials,
            tags=site.tags,
        ),
        parts.opts,
    )
    return KarpenterParts(made, parts, reserved)


def build_karpenter(
    name: str,
    site: CloudSitePlan,
    plan: KarpenterPlan,
    cluster: EksCluster,
    parts: KarpenterParts,
    provider: pulumi.ProviderResource,
) -> dict[str, NodePool]:
    """Deploy Karpenter once its pods get credentials, and then the node pools of the site's groups."""
    karpenter = Karpenter(
        f"{name}{KARPENTER_SUFFIX}",
        KarpenterArgs(
            cluster_name=cluster.cluster_name,
            cluster_endpoint=cluster.endpoint,
            region=site.region,
            image=plan.image,
            version=plan.version,
            static_capacity=plan.static_capacity,
            reserved_capacity=plan.reserved_capacity,
            labels={"gpufleet.io/site": site.site},
        ),
        pulumi.ResourceOptions(providers=[provider], depends_on=[parts.role.association]),
    )
    # Node pools have parts in AWS (the image, a placement group) and in the cluster.
    opts = pulumi.ResourceOptions.merge(parts.site.opts, pulumi.ResourceOptions(providers=[provider]))
    return {
        group.name: NodePool(
            f"{name}-{group.name}", _pool_args(group, group.node_pool, parts, karpenter), opts
        )
        for group in site.node_groups
        if group.node_pool is not None
    }


def pool_outputs(
    group: NodeGroupPlan, pool: NodePoolPlan, made: NodePool | None, parts: KarpenterParts | None
) -> dict[str, Any]:
    """Return the exports of a group that Karpenter scales; `made` is None where nothing is applied yet."""
    purchase = parts.reserved.get(group.name) if parts is not None else None
    return group_outputs(
        group,
        kind="karpenter-node-pool",
        group_names=list(pool_names(group.name, pool.limits, pool.always)) if made is not None else [],
        launch_template_id=None,
        placement_group=made.placement_group_name if made is not None else None,
        reservation=purchase.reservation if purchase is not None else None,
    )


def _pool_args(
    group: NodeGroupPlan, pool: NodePoolPlan, karpenter_parts: KarpenterParts, karpenter: Karpenter
) -> NodePoolArgs:
    parts, purchase = karpenter_parts.site, karpenter_parts.reserved.get(group.name)
    subnets = _subnets(group, parts)
    efa_groups = [parts.network.efa_security_group_id] if group.efa else []
    return NodePoolArgs(
        group=group.name,
        instance_types=group.instance_types,
        zones=group.zones,
        capacity_types=pool.capacity_types,
        always=pool.always,
        limits=pool.limits,
        weight=pool.weight,
        moves_pods=pool.moves_pods,
        ends_after_s=pool.ends_after_s,
        changed_nodes=pool.changed_nodes,
        subnet_ids=[subnets[zone] for zone in group.zones],
        security_group_ids=[parts.client_group, *efa_groups],
        instance_profile=parts.roles.instance_profile_name,
        image=node_image(group.image_kind, group.image),
        interfaces=[interface_args(each) for each in group.network_interfaces],
        placement_group=group.placement_group if purchase is None else purchase.placement_group,
        reservation_id=None if purchase is None else _reservation_id(purchase),
        block=purchase is not None and isinstance(purchase.capacity, BlockNodes),
        public_ip=group.public_ip,
        volume=volume_args(group.volume),
        stripes_nvme=group.local_nvme is not None,
        # Karpenter writes that NodeConfig itself, and counts the drives as the node's disk.
        user_data=[part for part in group.user_data if part != STRIPE_IN_EKS],
        labels=node_labels(group),
        taints=[taint_args(each) for each in group.taints],
        after=karpenter.ready,
        tags=group.tags,
    )


def _subnets(group: NodeGroupPlan, parts: SiteParts) -> Mapping[str, pulumi.Output[str]]:
    """Return the subnets of a group by zone; like node groups, reserved nodes are in private ones."""
    public = group.public_ip and not in_reserved_pool(group)
    return parts.network.public_subnet_ids if public else parts.network.private_subnet_ids


def _reservation_id(purchase: Purchase) -> pulumi.Input[str]:
    if not isinstance(purchase.capacity, ReservedNodes | BlockNodes):
        raise AssertionError("a node class selects reservations and blocks by their ids")
    return purchase.capacity.reservation_id
