"""ClusterBase: the contents of every GPU cluster: teams with quotas, priorities, device plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.bucket_volume import BucketFolderArgs, bucket_volume
from gpufleet.components.device_plugins import (
    EFA_NODE_LABEL,
    GPU_NODE_LABEL,
    SharedGpusArgs,
    efa_device_plugins,
    nvidia_device_plugins,
)
from gpufleet.components.file_system_volume import FileSystemArgs, file_system_volume
from gpufleet.components.gpu_operator import gpu_operator
from gpufleet.components.neuron import NEURON_NODE_LABEL, NeuronArgs, neuron
from gpufleet.components.team_volume import team_volume
from gpufleet.kinds import (
    GPU_RESOURCE,
    NEURON_CORE_RESOURCE,
    NEURON_RESOURCE,
    PRIORITIES,
    PRIORITY_LABEL,
    SYSTEM_PRIORITIES,
    TEAM_LABEL,
    priority_class,
)

Priority = Literal["low", "normal", "high"]


@dataclass(frozen=True, kw_only=True)
class TeamArgs:
    """A team: its namespace, the maximum number of GPUs of its pods, and their highest priority.

    In a cluster with Neuron devices, `neuron_devices` is their maximum, in whole devices: the quota allows no
    pods that request single cores. In one whose GPUs are shared or divided, `gpu_shares` is the maximum of
    each kind of share: the quota of GPUs does not count them.

    Its pods can be reached from their own namespace. `ingress_namespaces` (names) and `ingress_cidrs` allow
    other sources (an ingress controller, a load balancer that sends to pod addresses, a metrics collector);
    probes of the node's kubelet are always allowed. `service_accounts` are created for its pods, without a
    token for the Kubernetes API. `file_systems` and `bucket_folders` are mounted by claims with their names,
    the latter with the role of the pod's service account.
    """

    name: str
    gpus: int
    neuron_devices: int = 0
    gpu_shares: int = 0
    priority: Priority = "normal"
    ingress_namespaces: Sequence[str] = ()
    ingress_cidrs: Sequence[str] = ()
    service_accounts: Sequence[str] = ()
    file_systems: Sequence[FileSystemArgs] = ()
    bucket_folders: Sequence[BucketFolderArgs] = ()


@dataclass(frozen=True, kw_only=True)
class ClusterBaseArgs:
    """Inputs of `ClusterBase`.

    `taint_keys` are the taints of the GPU nodes, which the device plugins tolerate. `gpu_stack` selects
    NVIDIA's device plugin only, or its GPU Operator (plugin, DCGM exporter, MIG manager). `shared_gpus` are
    configurations of the plugin for GPUs that pods share, and `share_resources` what pods request instead of
    whole GPUs. `neuron` is for clusters with Trainium or Inferentia. With `queues`, namespaces have the label
    by which `TeamQueues` limits priorities. `images` replaces image names, for clusters with their own
    registry. `dcgm`: the GPU Operator's DCGM is a service.
    """

    teams: Sequence[TeamArgs] = ()
    gpu_stack: Literal["device-plugin", "gpu-operator"] = "device-plugin"
    shared_gpus: Sequence[SharedGpusArgs] = ()
    share_resources: Sequence[str] = ()
    efa: bool = False
    region: str
    taint_keys: Sequence[str] = ("nvidia.com/gpu",)
    device_plugin_version: str = "v0.20.0"
    gpu_operator_version: str = "v26.7.0"
    dcgm: bool = False
    neuron: NeuronArgs | None = None
    queues: bool = False
    images: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


class ClusterBase(pulumi.ComponentResource):
    """Namespaces with quotas, priority classes and device plugins, as plain typed manifests.

    A team's quota limits GPUs and Neuron devices. A quota of zero rejects pods of a priority above the
    team's. Pod security is enforced at `baseline`. A network policy per namespace allows traffic from inside
    it and from the team's sources, if the cluster's network plugin enforces policies: EKS's does only with
    `enableNetworkPolicy` in its add-on. Outbound traffic is not restricted.
    """

    namespaces: Mapping[str, pulumi.Output[str]]

    def __init__(self, name: str, args: ClusterBaseArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpufleet:kubernetes:ClusterBase", name, None, opts)
        self._labels = {"app.kubernetes.io/managed-by": "gpufleet", **args.labels}
        child = pulumi.ResourceOptions(parent=self)
        for priority, value in PRIORITIES.items():
            k8s.scheduling.v1.PriorityClass(
                f"{name}-{priority}",
                metadata=self._meta(priority_class(priority)),
                value=value,
                global_default=False,
                description=f"Jobs of {priority} priority",
                opts=child,
            )
        self._neuron = args.neuron is not None
        self._share_resources = args.share_resources
        self._queues = args.queues
        self.namespaces = {team.name: self._team(name, team, args.region) for team in args.teams}
        if args.gpu_stack == "gpu-operator":
            gpu_operator(
                name,
                args.gpu_operator_version,
                args.shared_gpus,
                args.taint_keys,
                child,
                divided=any("/mig-" in resource for resource in args.share_resources),
                dcgm=args.dcgm,
            )
        else:
            nvidia_device_plugins(
                name,
                args.device_plugin_version,
                args.shared_gpus,
                args.taint_keys,
                self._labels,
                args.images,
                child,
            )
        if args.neuron is not None:
            neuron(name, args.neuron, args.taint_keys, self._labels, args.images, child)
        if args.efa:
            efa_device_plugins(
                name,
                args.region,
                args.taint_keys,
                self._labels,
                args.images,
                child,
                neuron_label=NEURON_NODE_LABEL if self._neuron else None,
            )
        self.register_outputs({"namespaces": dict(self.namespaces)})

    def _meta(
        self, name: str, namespace: pulumi.Input[str] | None = None, **labels: str
    ) -> k8s.meta.v1.ObjectMetaArgs:
        return k8s.meta.v1.ObjectMetaArgs(name=name, namespace=namespace, labels={**self._labels, **labels})

    def _team(self, name: str, team: TeamArgs, region: str) -> pulumi.Output[str]:
        child = pulumi.ResourceOptions(parent=self)
        label = f"{name}-{team.name}"
        namespace = k8s.core.v1.Namespace(
            label,
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=team.name,
                labels={
                    **self._labels,
                    TEAM_LABEL: team.name,
                    **({PRIORITY_LABEL: team.priority} if self._queues else {}),
                    "pod-security.kubernetes.io/enforce": "baseline",
                    "pod-security.kubernetes.io/warn": "restricted",
                },
            ),
            opts=child,
        )
        inside: pulumi.Output[str] = namespace.metadata.apply(_name)
        k8s.core.v1.ResourceQuota(
            f"{label}-gpus",
            metadata=self._meta("gpus", inside),
            spec=k8s.core.v1.ResourceQuotaSpecArgs(hard={f"requests.{GPU_RESOURCE}": str(team.gpus)}),
            opts=child,
        )
        if self._share_resources:
            k8s.core.v1.ResourceQuota(
                f"{label}-gpu-shares",
                metadata=self._meta("gpu-shares", inside),
                spec=k8s.core.v1.ResourceQuotaSpecArgs(
                    hard={f"requests.{each}": str(team.gpu_shares) for each in self._share_resources}
                ),
                opts=child,
            )
        if self._neuron:
            # Cores would count apart from the devices that they are part of.
            k8s.core.v1.ResourceQuota(
                f"{label}-neuron",
                metadata=self._meta("neuron", inside),
                spec=k8s.core.v1.ResourceQuotaSpecArgs(
                    hard={
                        f"requests.{NEURON_RESOURCE}": str(team.neuron_devices),
                        f"requests.{NEURON_CORE_RESOURCE}": "0",
                    }
                ),
                opts=child,
            )
        above = [priority_class(p) for p, value in PRIORITIES.items() if value > PRIORITIES[team.priority]]
        k8s.core.v1.ResourceQuota(
            f"{label}-priority",
            metadata=self._meta("no-higher-priority", inside),
            spec=k8s.core.v1.ResourceQuotaSpecArgs(
                hard={"pods": "0"},
                scope_selector=k8s.core.v1.ScopeSelectorArgs(
                    match_expressions=[
                        k8s.core.v1.ScopedResourceSelectorRequirementArgs(
                            scope_name="PriorityClass",
                            operator="In",
                            values=[*above, *SYSTEM_PRIORITIES],
                        )
                    ]
                ),
            ),
            opts=child,
        )
        k8s.core.v1.LimitRange(
            f"{label}-defaults",
            metadata=self._meta("defaults", inside),
            spec=k8s.core.v1.LimitRangeSpecArgs(
                limits=[
                    k8s.core.v1.LimitRangeItemArgs(
                        type="Container",
                        # No default limit: it would reject larger requests and kill pods that use more.
                        default_request={"cpu": "1", "memory": "4Gi"},
                    )
                ]
            ),
            opts=child,
        )
        k8s.networking.v1.NetworkPolicy(
            f"{label}-ingress",
            metadata=self._meta("from-inside-and-named", inside),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=k8s.meta.v1.LabelSelectorArgs(),
                policy_types=["Ingress"],
                ingress=[
                    k8s.networking.v1.NetworkPolicyIngressRuleArgs(from_=_peers(team)),
                ],
            ),
            opts=child,
        )
        for account in team.service_accounts:
            k8s.core.v1.ServiceAccount(
                f"{label}-{account}",
                metadata=self._meta(account, inside),
                automount_service_account_token=False,
                opts=child,
            )
        volumes = [file_system_volume(team.name, each) for each in team.file_systems]
        volumes += [bucket_volume(team.name, each, region) for each in team.bucket_folders]
        for volume in volumes:
            team_volume(label, team.name, inside, volume, self._labels, child)
        return inside


def _peers(team: TeamArgs) -> list[k8s.networking.v1.NetworkPolicyPeerArgs]:
    """Return the sources that reach the team's pods: its own pods, and its namespaces and networks."""
    inside = k8s.networking.v1.NetworkPolicyPeerArgs(pod_selector=k8s.meta.v1.LabelSelectorArgs())
    namespaces = [
        k8s.networking.v1.NetworkPolicyPeerArgs(
            namespace_selector=k8s.meta.v1.LabelSelectorArgs(
                match_labels={"kubernetes.io/metadata.name": namespace}
            )
        )
        for namespace in team.ingress_namespaces
    ]
    networks = [
        k8s.networking.v1.NetworkPolicyPeerArgs(ip_block=k8s.networking.v1.IPBlockArgs(cidr=cidr))
        for cidr in team.ingress_cidrs
    ]
    return [inside, *namespaces, *networks]


def _name(metadata: Any) -> str:
    return str(metadata["name"] if isinstance(metadata, Mapping) else metadata.name)


__all__ = [
    "EFA_NODE_LABEL",
    "GPU_NODE_LABEL",
    "NEURON_NODE_LABEL",
    "PRIORITIES",
    "BucketFolderArgs",
    "ClusterBase",
    "ClusterBaseArgs",
    "FileSystemArgs",
    "NeuronArgs",
    "SharedGpusArgs",
    "TeamArgs",
    "priority_class",
]
