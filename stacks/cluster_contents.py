"""Resources inside a site's Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.bucket import Bucket
from gpufleet.components.cluster import EksCluster
from gpufleet.components.cluster_base import (
    ClusterBase,
    ClusterBaseArgs,
    NeuronArgs,
    SharedGpusArgs,
    TeamArgs,
)
from gpufleet.components.file_system_volume import FileSystemArgs
from gpufleet.components.identity import PodRole
from gpufleet.components.node_pool import NodePool
from gpufleet.components.notice_handler import NoticeHandler, NoticeHandlerArgs
from gpufleet.components.storage import SharedStorage
from gpufleet.kinds import TEAM_SERVICE_ACCOUNT
from gpufleet.plan.gpu_sharing import config_text, share_resources
from gpufleet.plan.kubernetes_models import TeamFileSystemPlan
from gpufleet.plan.models import CloudSitePlan, KubernetesPlan
from gpufleet.plan.names import NOTICES_SUFFIX
from gpufleet.stacks.autoscaler import build_autoscaler
from gpufleet.stacks.fault_repair import build_fault_repair
from gpufleet.stacks.interruptions import NoticeParts
from gpufleet.stacks.karpenter import KarpenterParts, build_karpenter
from gpufleet.stacks.queues import build_queues
from gpufleet.stacks.team_buckets import bucket_folders


def build_cluster_base(
    name: str,
    site: CloudSitePlan,
    settings: KubernetesPlan,
    cluster: EksCluster,
    kubeconfig: pulumi.Output[str],
    *,
    storage: Mapping[str, SharedStorage],
    buckets: Mapping[str, Bucket],
    identifier: pulumi.Output[str] | None = None,
    notices: NoticeParts | None = None,
    scaler: PodRole | None = None,
    karpenter: KarpenterParts | None = None,
) -> dict[str, NodePool]:
    """Apply what runs in the cluster once it can, and return its node pools.

    `kubeconfig` is how the run reaches the API. With an `identifier` of the cluster, another kubeconfig does
    not replace the contents: without one, Pulumi takes another server for another cluster.
    """
    provider = k8s.Provider(
        f"{name}-kubernetes",
        kubeconfig=kubeconfig,
        cluster_identifier=identifier,
        enable_server_side_apply=True,
        opts=pulumi.ResourceOptions(depends_on=list(cluster.system_ready)),
    )
    taints = [taint.key for group in site.node_groups for taint in group.taints]
    taint_keys = list(dict.fromkeys(["nvidia.com/gpu", *taints]))
    if notices is not None and notices.role is not None:
        NoticeHandler(
            f"{name}{NOTICES_SUFFIX}",
            NoticeHandlerArgs(
                settings=notices.settings,
                queue_url=notices.queue.queue_url,
                labels={"gpufleet.io/site": site.site},
            ),
            # Pods get their credentials when they start.
            pulumi.ResourceOptions(providers=[provider], depends_on=[notices.role.association]),
        )
    if settings.autoscaler is not None and scaler is not None:
        build_autoscaler(
            name,
            site,
            settings.autoscaler,
            cluster,
            scaler,
            pulumi.ResourceOptions(providers=[provider]),
        )
    pools: dict[str, NodePool] = {}
    if settings.karpenter is not None and karpenter is not None:
        pools = build_karpenter(name, site, settings.karpenter, cluster, karpenter, provider)
    if settings.fault_repair is not None:
        build_fault_repair(
            name, site, settings.fault_repair, taint_keys, pulumi.ResourceOptions(providers=[provider])
        )
    base = ClusterBase(
        f"{name}-base",
        ClusterBaseArgs(
            teams=[
                TeamArgs(
                    name=team.name,
                    gpus=team.gpus,
                    neuron_devices=team.neuron_devices,
                    gpu_shares=team.gpu_shares,
                    priority=team.priority,
                    service_accounts=[TEAM_SERVICE_ACCOUNT] if team.buckets else [],
                    file_systems=[_file_system(each, site, storage) for each in team.file_systems],
                    bucket_folders=bucket_folders(team, buckets),
                )
                for team in settings.teams
            ],
            gpu_stack=settings.gpu_stack,
            device_plugin_version=settings.device_plugin_version,
            gpu_operator_version=settings.gpu_operator_version,
            dcgm=settings.fault_repair is not None,
            neuron=None
            if settings.neuron is None
            else NeuronArgs(version=settings.neuron.version, scheduler_image=settings.neuron.scheduler_image),
            shared_gpus=_shared_gpus(site),
            share_resources=share_resources(site.node_groups),
            efa=any(group.efa for group in site.node_groups),
            queues=settings.queues is not None,
            region=site.region,
            taint_keys=taint_keys,
            labels={"gpufleet.io/site": site.site},
        ),
        pulumi.ResourceOptions(providers=[provider]),
    )
    build_queues(name, site, settings, base.namespaces, pulumi.ResourceOptions(providers=[provider]))
    return pools


def _shared_gpus(site: CloudSitePlan) -> list[SharedGpusArgs]:
    """Return the configurations of shared GPUs, each once."""
    plans = [group.gpu_sharing for group in site.node_groups if group.gpu_sharing is not None]
    shared = {plan.config_name: plan for plan in plans if plan.kind != "none"}
    return [
        SharedGpusArgs(
            name=name,
            text=config_text(plan.kind, plan.replicas, plan.mig_profile),
        )
        for name, plan in sorted(shared.items())
    ]


def _file_system(
    wanted: TeamFileSystemPlan, site: CloudSitePlan, storage: Mapping[str, SharedStorage]
) -> FileSystemArgs:
    plan = next(each for each in site.lustre if each.name == wanted.storage)
    made = storage[wanted.storage]
    return FileSystemArgs(
        name=wanted.storage,
        file_system_id=made.file_system_id,
        dns_name=made.dns_name,
        mount_name=made.mount_name,
        capacity_gib=plan.capacity_gib,
        write=wanted.write,
    )
