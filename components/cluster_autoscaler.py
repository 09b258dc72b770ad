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
from gpufleet.components.pod_security import as_nobody, unprivileged
from gpufleet.kinds import AUTOSCALED_TAG, CLUSTER_AUTOSCALER, Expander

PRIORITIES = "cluster-autoscaler-priority-expander"
STATUS = "cluster-autoscaler-status"
METRICS_PORT = 8085

GPU_IDLE = "0.001"
"""A node with a larger share of its GPUs requested is in use and stays: 0.5, the default, moves jobs."""

_NAMESPACE = "kube-system"
_RBAC = "rbac.authorization.k8s.io"
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
        self._guards()
        self._deployment(args, self.child(depends_on=before))
        self.register_outputs({})

    def _meta(
        self, name: str = CLUSTER_AUTOSCALER, annotations: Mapping[str, str] | None = None
    ) -> k8s.meta.v1.ObjectMetaArgs:
        return k8s.meta.v1.ObjectMetaArgs(
            name=name, namespace=_NAMESPACE, labels=self._labels, annotations=annotations
        )

    def _rights(self) -> list[pulumi.Resource]:
        subject = k8s.rbac.v1.SubjectArgs(
            kind="ServiceAccount", name=CLUSTER_AUTOSCALER, namespace=_NAMESPACE
        )
        everywhere = k8s.meta.v1.ObjectMetaArgs(name=CLUSTER_AUTOSCALER, labels=self._labels)
        cluster_role = k8s.rbac.v1.ClusterRole(
            self._name,
            metadata=everywhere,
            rules=[_rule(group, resources, verbs) for group, resources, verbs in RULES],
            opts=self.child(),
        )
        role = k8s.rbac.v1.Role(
            self._name,
            metadata=self._meta(),
            rules=[_rule(*each) for each in OWN_RULES],
            opts=self.child(),
        )
        return [
            k8s.rbac.v1.ClusterRoleBinding(
                self._name,
                metadata=everywhere,
                role_ref=k8s.rbac.v1.RoleRefArgs(
                    api_group=_RBAC, kind="ClusterRole", name=CLUSTER_AUTOSCALER
                ),
                subjects=[subject],
                opts=self.child(depends_on=[cluster_role]),
            ),
            k8s.rbac.v1.RoleBinding(
                self._name,
                metadata=self._meta(),
                role_ref=k8s.rbac.v1.RoleRefArgs(api_group=_RBAC, kind="Role", name=CLUSTER_AUTOSCALER),
                subjects=[subject],
                opts=self.child(depends_on=[role]),
            ),
        ]

    def _guards(self) -> None:
        """Keep one pod while nodes are drained, and let nothing in but readers of metrics."""
        selected = k8s.meta.v1.LabelSelectorArgs(match_labels=self._selector)
        k8s.policy.v1.PodDisruptionBudget(
            self._name,
            metadata=self._meta(),
            spec=k8s.policy.v1.PodDisruptionBudgetSpecArgs(max_unavailable=1, selector=selected),
            opts=self.child(),
        )
        k8s.networking.v1.NetworkPolicy(
            self._name,
            metadata=self._meta(),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=selected,
                policy_types=["Ingress"],
                ingress=[
                    k8s.networking.v1.NetworkPolicyIngressRuleArgs(
                        ports=[k8s.networking.v1.NetworkPolicyPortArgs(port=METRICS_PORT, protocol="TCP")]
                    )
                ],
            ),
            opts=self.child(),
        )

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
        apart = k8s.core.v1.TopologySpreadConstraintArgs(
            max_skew=1,
            topology_key="kubernetes.io/hostname",
            when_unsatisfiable="ScheduleAnyway",
            label_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=self._selector),
        )
        k8s.apps.v1.Deployment(
            self._name,
            # Its image comes from outside: an update does not wait for it.
            metadata=self._meta(annotations={"pulumi.com/skipAwait": "true"}),
            spec=k8s.apps.v1.DeploymentSpecArgs(
                replicas=2,
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels=self._selector),
                template=k8s.core.v1.PodTemplateSpecArgs(
                    metadata=k8s.meta.v1.ObjectMetaArgs(labels=self._labels),
                    spec=k8s.core.v1.PodSpecArgs(
                        service_account_name=CLUSTER_AUTOSCALER,
                        automount_service_account_token=True,
                        priority_class_name="system-cluster-critical",
                        node_selector={"gpufleet.io/node-group": "system"},
                        topology_spread_constraints=[apart],
                        security_context=as_nobody(),
                        containers=[container],
                    ),
                ),
            ),
            opts=opts,
        )


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
        f"--namespace={_NAMESPACE}",
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


def _rule(group: str, resources: str, verbs: str, names: Sequence[str] = ()) -> k8s.rbac.v1.PolicyRuleArgs:
    return k8s.rbac.v1.PolicyRuleArgs(
        api_groups=[group],
        resources=resources.split(),
        verbs=verbs.split(),
        resource_names=list(names) or None,
    )
