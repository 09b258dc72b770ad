"""ClusterAutoscaler: Kubernetes's own autoscaler of EKS node groups, as plain manifests.

Its rules and flags are those of kubernetes/autoscaler at cluster-autoscaler-1.35.2: the example for AWS
(cloudprovider/aws/examples), the Helm chart, and main.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.base import AwsContext, Component
from gpufleet.components.pod_security import unprivileged
from gpufleet.components.system_pods import NAMESPACE, bind_cluster_role, bind_role, guard, rule, two_replicas
from gpufleet.kinds import AUTOSCALED_TAG, CLUSTER_AUTOSCALER, Expander

PRIORITIES = "cluster-autoscaler-priority-expander"
STATUS = "cluster-autoscaler-status"
METRICS_PORT = 8085

GPU_IDLE = "0.001"
"""A node with a larger share of its GPUs requested is in use and stays: 0.5, the default, moves jobs."""

_READ = "get list watch"
_LONGEST_DELAY_S = 600

RULES: tuple[tuple[str, str, str], ...] = (
    ("", "pods services replicationcontrollers namespaces", _READ),
    ("", "persistentvolumes persistentvolumeclaims", _READ),
    ("", "nodes", f"{_READ} update"),
    ("", "pods/eviction", "create"),
    ("", "events", "create patch"),
    ("apps", "daemonsets replicasets statefulsets", _READ),
    ("batch", "jobs", _READ),
    ("policy", "poddisruptionbudgets", _READ),
    ("storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", _READ),
    ("resource.k8s.io", "resourceslices resourceclaims deviceclasses", _READ),
)
"""Group, resources and verbs in the whole cluster. It taints nodes, and evicts pods of those that it ends."""

OWN_RULES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("", "configmaps", "create list watch", ()),
    ("", "configmaps", "get update delete", (STATUS,)),
    ("", "configmaps", "get", (PRIORITIES,)),
    ("coordination.k8s.io", "leases", "create", ()),
    ("coordination.k8s.io", "leases", "get update", (CLUSTER_AUTOSCALER,)),
)
"""Those of its namespace; the last entry has the names of objects."""


@dataclass(frozen=True, kw_only=True)
class ClusterAutoscalerArgs:
    """Inputs of `ClusterAutoscaler`.

    It scales groups with the tag `gpufleet:autoscaler` of `cluster_name`. `priorities` are beginnings of
    names of EKS node groups by kind of capacity: a higher number is preferred. `image` has the cluster's
    minor version.
    """

    cluster_name: pulumi.Input[str]
    region: str
    image: str
    scale_down: bool = True
    scale_down_after_s: int = 600
    expander: Expander = "least-waste"
    priorities: Mapping[int, Sequence[str]]
    labels: Mapping[str, str]


class ClusterAutoscaler(Component):
    """Two pods on the system nodes, of which one leads."""

    def __init__(
        self, name: str, args: ClusterAutoscalerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpufleet:kubernetes:ClusterAutoscaler", name, {}, opts)
        self._name = name
        self._selector = {"app.kubernetes.io/name": CLUSTER_AUTOSCALER}
        self._labels = {**args.labels, **self._selector}
        account = k8s.core.v1.ServiceAccount(
            name, metadata=self._meta(), automount_service_account_token=False, opts=self.child()
        )
        before = [account, *self._rights()]
        before.append(
            k8s.core.v1.ConfigMap(
                name,
                metadata=self._meta(PRIORITIES),
                data={"priorities": priorities_text(args.priorities)},
                opts=self.child(),
            )
        )
        guard(self, name, self._meta(), self._selector, METRICS_PORT)
        self._deployment(args, self.child(depends_on=before))
        self.register_outputs({})

    def _meta(self, name: str = CLUSTER_AUTOSCALER) -> k8s.meta.v1.ObjectMetaArgs:
        return k8s.meta.v1.ObjectMetaArgs(name=name, namespace=NAMESPACE, labels=self._labels)

    def _rights(self) -> list[pulumi.Resource]:
        everywhere = k8s.meta.v1.ObjectMetaArgs(name=CLUSTER_AUTOSCALER, labels=self._labels)
        return [
            bind_cluster_role(
                self, self._name, everywhere, [rule(*each) for each in RULES], CLUSTER_AUTOSCALER
            ),
            bind_role(
                self, self._name, self._meta(), [rule(*each) for each in OWN_RULES], CLUSTER_AUTOSCALER
            ),
        ]

    def _deployment(self, args: ClusterAutoscalerArgs, opts: pulumi.ResourceOptions) -> None:
        container = k8s.core.v1.ContainerArgs(
            name=CLUSTER_AUTOSCALER,
            image=args.image,
            command=["./cluster-autoscaler", *arguments(args)],
            env=[k8s.core.v1.EnvVarArgs(name="AWS_REGION", value=args.region)],
            ports=[k8s.core.v1.ContainerPortArgs(name="metrics", container_port=METRICS_PORT)],
            resources=k8s.core.v1.ResourceRequirementsArgs(
                requests={"cpu": "100m", "memory": "600Mi"}, limits={"memory": "1Gi"}
            ),
            liveness_probe=k8s.core.v1.ProbeArgs(
                http_get=k8s.core.v1.HTTPGetActionArgs(path="/health-check", port="metrics"),
                initial_delay_seconds=30,
                period_seconds=30,
            ),
            security_context=unprivileged(),
        )
        two_replicas(self._name, self._meta(), self._selector, CLUSTER_AUTOSCALER, container, opts)


def arguments(args: ClusterAutoscalerArgs) -> list[pulumi.Input[str]]:
    """Return the arguments of the autoscaler."""
    discovery: pulumi.Output[str] = pulumi.Output.format(
        "--node-group-auto-discovery=asg:tag={0}={1}", AUTOSCALED_TAG, args.cluster_name
    )
    expanders = ["least-waste", "priority"]
    if args.expander == "priority":
        expanders.reverse()
    after = args.scale_down_after_s
    given = [
        "--cloud-provider=aws",
        f"--namespace={NAMESPACE}",
        f"--expander={','.join(expanders)}",
        f"--scale-down-enabled={str(args.scale_down).lower()}",
        f"--scale-down-unneeded-time={after}s",
        # After a group has grown, no node ends for this time: its default is 10 minutes.
        f"--scale-down-delay-after-add={min(after, _LONGEST_DELAY_S)}s",
        f"--scale-down-gpu-utilization-threshold={GPU_IDLE}",
        "--leader-elect=true",
        "--v=2",
    ]
    return [pulumi.Output.format("--cluster-name={0}", args.cluster_name), discovery, *given]


def priorities_text(priorities: Mapping[int, Sequence[str]]) -> str:
    """Return the ConfigMap's text: regular expressions of names of Auto Scaling groups by priority.

    EKS calls the group of a node group `eks-<its name>-<uuid>`, and Pulumi's names end in seven hexadecimal
    digits. Groups without a priority of their own come last. JSON is YAML too, but for keys that are numbers.
    """
    lines: list[str] = []
    for priority in sorted(priorities, reverse=True):
        lines.append(f"{priority}:")
        lines += [
            f"  - {json.dumps(f'^eks-{re.escape(name)}-[0-9a-f]{{7}}-')}" for name in priorities[priority]
        ]
    return "\n".join([*lines, "1:", '  - ".*"', ""])


def iam_statements(
    cluster_name: pulumi.Input[str], group_prefix: str, context: AwsContext
) -> list[dict[str, Any]]:
    """Return what the autoscaler may do in AWS: read groups and types, and set sizes of tagged groups.

    `group_prefix` begins the names of the cluster's node groups.
    """

    def arn(pattern: str, *more: pulumi.Input[str]) -> pulumi.Output[str]:
        return pulumi.Output.format(pattern, context.partition, context.region, context.account_id, *more)

    return [
        {
            "Effect": "Allow",
            "Action": [
                "autoscaling:DescribeAutoScalingGroups",
                "autoscaling:DescribeScalingActivities",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplateVersions",
            ],
            "Resource": ["*"],
        },
        {
            "Effect": "Allow",
            "Action": ["eks:DescribeNodegroup"],
            "Resource": [arn("arn:{0}:eks:{1}:{2}:nodegroup/{3}/*/*", cluster_name)],
        },
        {
            "Effect": "Allow",
            "Action": [
                "autoscaling:SetDesiredCapacity",
                "autoscaling:TerminateInstanceInAutoScalingGroup",
            ],
            "Resource": [
                arn(
                    "arn:{0}:autoscaling:{1}:{2}:autoScalingGroup:*:autoScalingGroupName/eks-{3}-*",
                    group_prefix,
                )
            ],
            "Condition": {"StringEquals": {f"aws:ResourceTag/{AUTOSCALED_TAG}": cluster_name}},
        },
    ]
