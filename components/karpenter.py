"""Karpenter: the controller that launches nodes for pods that wait, as plain manifests, and its definitions.

The Deployment and the rights are those of the chart of karpenter-provider-aws v1.14.1 (charts/karpenter), but
for what features need that are off here: NodeOverlay, CapacityBuffer and interruption handling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.base import Component
from gpufleet.components.pod_security import unprivileged
from gpufleet.components.system_pods import NAMESPACE, bind_cluster_role, bind_role, guard, rule, two_replicas
from gpufleet.kinds import KARPENTER, KARPENTER_CRD_CHART

METRICS_PORT, HEALTH_PORT = 8080, 8081
MEMORY = "1Gi"

_READ = "get list watch"

RULES: tuple[tuple[str, str, str], ...] = (
    ("karpenter.sh", "nodepools nodepools/status", f"{_READ} update patch"),
    ("karpenter.sh", "nodeclaims nodeclaims/status", f"{_READ} create delete update patch"),
    ("karpenter.k8s.aws", "ec2nodeclasses ec2nodeclasses/status", f"{_READ} update patch"),
    ("", "pods", f"{_READ} delete"),
    ("", "nodes", f"{_READ} patch update delete"),
    ("", "persistentvolumes persistentvolumeclaims replicationcontrollers namespaces", _READ),
    ("", "pods/eviction", "create"),
    ("", "events", f"{_READ} create patch"),
    ("apps", "daemonsets deployments replicasets statefulsets", _READ),
    ("policy", "poddisruptionbudgets", _READ),
    ("storage.k8s.io", "storageclasses csinodes volumeattachments", _READ),
)
"""Group, resources and verbs in the whole cluster. It drains the nodes that it ends: evicts their pods, and
deletes those whose time to end is over."""

OWN_RULES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("coordination.k8s.io", "leases", "create get watch", ()),
    ("coordination.k8s.io", "leases", "update patch", ("karpenter-leader-election",)),
    ("", "services", "get", ("kube-dns",)),
)
"""Those of its namespace; the last entry has the names of objects."""


@dataclass(frozen=True, kw_only=True)
class KarpenterArgs:
    """Inputs of `Karpenter`: the cluster, the image, and the version of the chart of definitions.

    With `static_capacity` it also keeps nodes that no pod needs (pools with `replicas`), a feature in alpha,
    with `reserved_capacity` (beta) it launches into the reservations of pools.
    """

    cluster_name: pulumi.Input[str]
    cluster_endpoint: pulumi.Input[str]
    region: str
    image: str
    version: str
    static_capacity: bool = False
    reserved_capacity: bool = False
    labels: Mapping[str, str]


class Karpenter(Component):
    """Two pods on the system nodes, of which one leads, and the definitions of its custom resources."""

    ready: list[pulumi.Resource]
    """What must exist before a node pool, and end after it: without Karpenter its nodes do not end."""

    def __init__(self, name: str, args: KarpenterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpufleet:kubernetes:Karpenter", name, {}, opts)
        self._name = name
        self._selector = {"app.kubernetes.io/name": KARPENTER}
        self._labels = {**args.labels, **self._selector}
        definitions = k8s.helm.v3.Release(
            f"{name}-definitions",
            name="karpenter-crd",
            chart=KARPENTER_CRD_CHART,
            version=args.version,
            namespace=NAMESPACE,
            timeout=300,
            opts=self.child(),
        )
        account = k8s.core.v1.ServiceAccount(
            name, metadata=self._meta(), automount_service_account_token=False, opts=self.child()
        )
        everywhere = k8s.meta.v1.ObjectMetaArgs(name=KARPENTER, labels=self._labels)
        rights = [
            bind_cluster_role(self, name, everywhere, [rule(*each) for each in RULES], KARPENTER),
            bind_role(self, name, self._meta(), [rule(*each) for each in OWN_RULES], KARPENTER),
        ]
        guard(self, name, self._meta(), self._selector, METRICS_PORT)
        deployment = self._deployment(args, self.child(depends_on=[definitions, account, *rights]))
        self.ready = [definitions, deployment]
        self.register_outputs({})

    def _meta(self) -> k8s.meta.v1.ObjectMetaArgs:
        return k8s.meta.v1.ObjectMetaArgs(name=KARPENTER, namespace=NAMESPACE, labels=self._labels)

    def _deployment(self, args: KarpenterArgs, opts: pulumi.ResourceOptions) -> k8s.apps.v1.Deployment:
        container = k8s.core.v1.ContainerArgs(
            name="controller",
            image=args.image,
            env=[k8s.core.v1.EnvVarArgs(name=key, value=value) for key, value in environment(args).items()],
            ports=[
                k8s.core.v1.ContainerPortArgs(name="http-metrics", container_port=METRICS_PORT),
                k8s.core.v1.ContainerPortArgs(name="http", container_port=HEALTH_PORT),
            ],
            resources=k8s.core.v1.ResourceRequirementsArgs(
                requests={"cpu": "500m", "memory": MEMORY}, limits={"memory": MEMORY}
            ),
            liveness_probe=k8s.core.v1.ProbeArgs(
                http_get=k8s.core.v1.HTTPGetActionArgs(path="/healthz", port="http"),
                initial_delay_seconds=30,
                timeout_seconds=30,
            ),
            readiness_probe=k8s.core.v1.ProbeArgs(
                http_get=k8s.core.v1.HTTPGetActionArgs(path="/readyz", port="http"),
                initial_delay_seconds=5,
                timeout_seconds=30,
            ),
            security_context=unprivileged(),
        )
        return two_replicas(self._name, self._meta(), self._selector, KARPENTER, container, opts)


def environment(args: KarpenterArgs) -> dict[str, pulumi.Input[str]]:
    """Return the settings of the controller, which it reads from its environment.

    It has no queue of interruptions: gpufleet's handler acts on AWS's notices, and a node that two programs
    drain loses its jobs to whichever is first, without the time for checkpoints.
    """
    gates = {
        "ReservedCapacity": args.reserved_capacity,
        "SpotToSpotConsolidation": False,
        "NodeRepair": False,
        "NodeOverlay": False,
        "StaticCapacity": args.static_capacity,
        "CapacityBuffer": False,
    }
    return {
        "AWS_REGION": args.region,
        "CLUSTER_NAME": args.cluster_name,
        "CLUSTER_ENDPOINT": args.cluster_endpoint,
        "KARPENTER_SERVICE": KARPENTER,
        "SYSTEM_NAMESPACE": NAMESPACE,
        "METRICS_PORT": str(METRICS_PORT),
        "HEALTH_PROBE_PORT": str(HEALTH_PORT),
        # 90% of it is Go's limit for its heap (options.go).
        "MEMORY_LIMIT": str(1024**3),
        "FEATURE_GATES": ",".join(f"{name}={str(on).lower()}" for name, on in gates.items()),
    }
