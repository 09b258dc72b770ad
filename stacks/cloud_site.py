"""One cloud site: its network, roles, cluster, storage, node groups and exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.bucket import Bucket, BucketArgs
from gpufleet.components.cluster import EksCluster, EksClusterArgs, SystemNodesArgs
from gpufleet.components.identity import IamRoles, IamRolesArgs, PodRole
from gpufleet.components.network import Network, NetworkArgs, SubnetArgs
from gpufleet.components.node_group import HeldSize
from gpufleet.components.node_pool import NodePool
from gpufleet.components.storage import DataRepositoryArgs, SharedStorage, SharedStorageArgs
from gpufleet.plan.models import CloudSitePlan, FleetPlan, KubernetesPlan, LustrePlan
from gpufleet.plan.names import SYSTEM
from gpufleet.stacks.autoscaler import build_autoscaler_role
from gpufleet.stacks.built_site import BuiltSite
from gpufleet.stacks.cloud_slurm import build_launcher, join_user_data
from gpufleet.stacks.cluster_access import (
    grants,
    run_kubeconfig,
    token_command,
    uses_forward,
    warn_of_next_step,
)
from gpufleet.stacks.cluster_contents import build_cluster_base
from gpufleet.stacks.connections import build_connections, build_dns
from gpufleet.stacks.interruptions import NoticeParts, build_notices
from gpufleet.stacks.karpenter import KarpenterParts, build_karpenter_role, pool_outputs
from gpufleet.stacks.node_args import node_image, volume_args
from gpufleet.stacks.node_groups import build_node_group
from gpufleet.stacks.settings import StackSettings
from gpufleet.stacks.site_parts import SiteParts
from gpufleet.stacks.slurm_servers import build_servers, server_outputs
from gpufleet.stacks.team_buckets import build_team_buckets


@dataclass(frozen=True)
class _Site:
    name: str
    plan: CloudSitePlan
    settings: StackSettings
    stopped: Mapping[str, HeldSize]
    opts: pulumi.ResourceOptions


def build_site(
    plan: FleetPlan,
    site: CloudSitePlan,
    settings: StackSettings,
    stopped: Mapping[str, HeldSize] | None = None,
) -> BuiltSite:
    """Create all resources of one site but its orders.

    `stopped` node groups (resource names) keep their maximum.
    """
    name = f"{plan.fleet}-{plan.environment}-{site.site}"
    provider = aws.Provider(name, region=site.region, **settings.aws_provider)
    this = _Site(name, site, settings, stopped or {}, pulumi.ResourceOptions(providers=[provider]))
    network = _network(this)
    connections = build_connections(name, site, network, this.opts)
    dns = build_dns(name, site, network, this.opts)
    buckets = _buckets(this)
    roles = IamRoles(
        name,
        IamRolesArgs(
            scheduler=site.scheduler,
            bucket_arns=[bucket.arn for bucket in buckets.values()],
            bucket_key_arns=[bucket.key_arn for bucket in buckets.values()],
            tags=site.tags,
        ),
        this.opts,
    )
    cluster = _cluster(this, site.kubernetes, network, roles) if site.kubernetes else None
    client_group = cluster.security_group_id if cluster else network.node_security_group_id
    storage = {item.name: _lustre(this, item, network, client_group, buckets) for item in site.lustre}
    slurm = site.slurm
    servers = build_servers(name, site, network, settings, this.opts)
    parts = SiteParts(
        region=site.region,
        network=network,
        roles=roles,
        cluster=cluster,
        client_group=client_group,
        settings=settings,
        stopped=this.stopped,
        opts=this.opts,
        joins=None if slurm is None else join_user_data(site, slurm, storage, servers),
        drains=plan.budget.drains_spot,
    )
    groups = {
        group.name: build_node_group(f"{name}-{group.name}", group, parts, ordered=group.ordered)
        for group in site.node_groups
        if group.node_pool is None
    }
    launches = None
    if slurm is not None:
        launches = build_launcher(name, plan, site, slurm, groups, roles, client_group, servers, this.opts)
    notices = build_notices(name, site, cluster, this.opts)
    scaler = build_autoscaler_role(name, site, cluster, this.opts)
    karpenter = build_karpenter_role(name, site, parts, stops=plan.budget.stops_growth)
    ways, pools = (
        _contents(this, site.kubernetes, cluster, storage, buckets, notices, scaler, karpenter)
        if cluster and site.kubernetes
        else ({}, {})
    )
    if cluster:
        build_team_buckets(name, site, cluster, buckets, this.opts)
    return BuiltSite(
        name=name,
        plan=site,
        parts=parts,
        groups=groups,
        provider=provider,
        after=[*(built.component for built in groups.values()), *storage.values()],
        exports={
            "region": site.region,
            "scheduler": site.scheduler,
            "vpc_id": network.vpc_id,
            "private_subnet_ids": dict(network.private_subnet_ids),
            "public_subnet_ids": dict(network.public_subnet_ids),
            **connections,
            "dns": dns,
            "cluster": _cluster_outputs(cluster),
            "notices": _notices_outputs(notices),
            "slurm": launches,
            "slurm_servers": server_outputs(servers),
            "node_groups": {
                group.name: groups[group.name].outputs
                if group.node_pool is None
                else pool_outputs(group, group.node_pool, pools.get(group.name), karpenter)
                for group in site.node_groups
            },
            "lustre": {item.name: _lustre_outputs(item, storage[item.name]) for item in site.lustre},
            "buckets": {key: bucket.bucket_name for key, bucket in buckets.items()},
        },
        kubeconfigs=ways,
    )


def _contents(
    this: _Site,
    plan: KubernetesPlan,
    cluster: EksCluster,
    storage: Mapping[str, SharedStorage],
    buckets: Mapping[str, Bucket],
    notices: NoticeParts | None,
    scaler: PodRole | None,
    karpenter: KarpenterParts | None,
) -> tuple[dict[str, pulumi.Output[str]], dict[str, NodePool]]:
    """Apply the contents of the cluster, unless that is for a later run; return its kubeconfigs and node
    pools."""
    ways = {"kubeconfig": cluster.kubeconfig}
    if plan.access == "phased":
        warn_of_next_step(this.plan)
        return ways, {}
    kubeconfig = run_kubeconfig(plan, this.settings, cluster)
    # The sandbox renders manifests into a folder that is called after the cluster.
    identifier = cluster.endpoint if this.settings.cloud == "aws" else None
    pools = build_cluster_base(
        this.name,
        this.plan,
        plan,
        cluster,
        kubeconfig,
        storage=storage,
        buckets=buckets,
        identifier=identifier,
        notices=notices,
        scaler=scaler,
        karpenter=karpenter,
    )
    return ways | ({"kubeconfig-ssm": kubeconfig} if uses_forward(plan, this.settings) else {}), pools


def _network(this: _Site) -> Network:
    site = this.plan
    return Network(
        this.name,
        NetworkArgs(
            cidr=site.cidr,
            subnets=[
                SubnetArgs(zone=subnet.zone, cidr=subnet.cidr, public=subnet.kind == "public")
                for subnet in site.subnets
            ],
            nat_zones=site.nat_zones,
            cluster_name=this.name if site.kubernetes else None,
            interface_endpoints=site.interface_endpoints,
            log_retention_days=site.flow_logs.retention_days,
            tags=site.tags,
        ),
        this.opts,
    )


def _buckets(this: _Site) -> dict[str, Bucket]:
    return {
        item.name: Bucket(
            f"{this.name}-{item.name}",
            BucketArgs(
                bucket=item.bucket,
                versioning=item.versioning,
                expire_days=item.expire_days,
                kms_key_arn=item.kms_key,
                protect=this.settings.protect,
                tags=item.tags,
            ),
            this.opts,
        )
        for item in this.plan.buckets
    }


def _cluster(this: _Site, settings: KubernetesPlan, network: Network, roles: IamRoles) -> EksCluster:
    logs, system = this.plan.cluster_logs, settings.system_nodes
    if roles.cluster_role_arn is None or logs is None:
        raise AssertionError("a Kubernetes site has a role and a log group for its cluster")
    access = grants(this.name, this.plan, settings, this.settings)
    return EksCluster(
        this.name,
        EksClusterArgs(
            cluster_name=this.name,
            version=settings.version,
            cluster_role_arn=roles.cluster_role_arn,
            node_role_arn=roles.node_role_arn,
            subnet_ids=list(network.private_subnet_ids.values()),
            private_cidrs=settings.private_cidrs,
            public_cidrs=settings.public_cidrs,
            admins=access.admins,
            viewers=access.viewers,
            token=token_command(this.settings),
            system_nodes=SystemNodesArgs(
                instance_types=system.instance_types,
                min_size=system.min,
                max_size=system.max,
                volume=volume_args(system.volume),
                image=node_image("eks-release", system.image),
                held=this.stopped.get(f"{this.name}-{SYSTEM}"),
                autoscaled=settings.scales_system_nodes,
            ),
            support_type=settings.support_type,
            log_types=settings.log_types,
            addons=settings.addons,
            addon_versions=settings.addon_versions,
            deletion_protection=this.settings.protect,
            after=network.nat_ready,
            log_retention_days=logs.retention_days,
            tags=this.plan.tags,
        ),
        this.opts,
    )


def _lustre(
    this: _Site,
    item: LustrePlan,
    network: Network,
    client_group: pulumi.Output[str],
    buckets: Mapping[str, Bucket],
) -> SharedStorage:
    repository = None
    if item.import_bucket is not None:
        made_here = {bucket.bucket: buckets[bucket.name].bucket_name for bucket in this.plan.buckets}
        repository = DataRepositoryArgs(
            bucket=made_here.get(item.import_bucket, item.import_bucket),
            prefix=item.import_prefix,
            export=item.export,
        )
    return SharedStorage(
        f"{this.name}-{item.name}",
        SharedStorageArgs(
            deployment_type=item.deployment,
            capacity_gib=item.capacity_gib,
            subnet_id=network.private_subnet_ids[item.zone],
            vpc_id=network.vpc_id,
            client_security_group_ids=[client_group],
            throughput=item.throughput,
            efa=item.efa,
            efa_security_group_id=network.efa_security_group_id if item.efa else None,
            metadata_iops=item.metadata_iops,
            compression=item.compression,
            backup_days=item.backup_days,
            data_repository=repository,
            kms_key_arn=item.kms_key,
            protect=this.settings.protect,
            final_backup=this.settings.protect,
            tags=item.tags,
        ),
        this.opts,
    )


def _notices_outputs(notices: NoticeParts | None) -> dict[str, Any] | None:
    if notices is None:
        return None
    return {
        **notices.settings,
        "queue_url": notices.queue.queue_url,
        "instance_profile_arn": notices.queue.instance_profile_arn,
    }


def _cluster_outputs(cluster: EksCluster | None) -> dict[str, Any] | None:
    if cluster is None:
        return None
    return {"name": cluster.cluster_name, "endpoint": cluster.endpoint, "version": cluster.version}


def _lustre_outputs(item: LustrePlan, storage: SharedStorage) -> dict[str, Any]:
    return {
        "id": storage.file_system_id,
        "dns_name": storage.dns_name,
        "mount_name": storage.mount_name,
        "mount": item.mount,
    }
