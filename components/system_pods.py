"""What two replicas of a controller on the system nodes have in common: rights, guards, and their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.base import Component
from gpufleet.components.pod_security import as_nobody

NAMESPACE = "kube-system"
RBAC = "rbac.authorization.k8s.io"


def rule(group: str, resources: str, verbs: str, names: Sequence[str] = ()) -> k8s.rbac.v1.PolicyRuleArgs:
    """Return a rule for resources and verbs that stand in one text each; `names` are those of objects."""
    return k8s.rbac.v1.PolicyRuleArgs(
        api_groups=[group],
        resources=resources.split(),
        verbs=verbs.split(),
        resource_names=list(names) or None,
    )


def guard(
    component: Component,
    name: str,
    metadata: k8s.meta.v1.ObjectMetaArgs,
    selector: Mapping[str, str],
    metrics_port: int,
) -> None:
    """Keep one pod while nodes are drained, and let nothing in but readers of metrics."""
    selected = k8s.meta.v1.LabelSelectorArgs(match_labels=selector)
    k8s.policy.v1.PodDisruptionBudget(
        name,
        metadata=metadata,
        spec=k8s.policy.v1.PodDisruptionBudgetSpecArgs(max_unavailable=1, selector=selected),
        opts=component.child(),
    )
    k8s.networking.v1.NetworkPolicy(
        name,
        metadata=metadata,
        spec=k8s.networking.v1.NetworkPolicySpecArgs(
            pod_selector=selected,
            policy_types=["Ingress"],
            ingress=[
                k8s.networking.v1.NetworkPolicyIngressRuleArgs(
                    ports=[k8s.networking.v1.NetworkPolicyPortArgs(port=metrics_port, protocol="TCP")]
                )
            ],
        ),
        opts=component.child(),
    )


def bind_role(
    component: Component,
    name: str,
    metadata: k8s.meta.v1.ObjectMetaArgs,
    rules: Sequence[k8s.rbac.v1.PolicyRuleArgs],
    account: str,
) -> pulumi.Resource:
    """Give a service account of the namespace rights in it; return the binding."""
    role = k8s.rbac.v1.Role(name, metadata=metadata, rules=list(rules), opts=component.child())
    bound: pulumi.Resource = k8s.rbac.v1.RoleBinding(
        name,
        metadata=metadata,
        role_ref=k8s.rbac.v1.RoleRefArgs(api_group=RBAC, kind="Role", name=account),
        subjects=[_subject(account)],
        opts=component.child(depends_on=[role]),
    )
    return bound


def bind_cluster_role(
    component: Component,
    name: str,
    metadata: k8s.meta.v1.ObjectMetaArgs,
    rules: Sequence[k8s.rbac.v1.PolicyRuleArgs],
    account: str,
) -> pulumi.Resource:
    """Give a service account of the namespace rights in the whole cluster; return the binding."""
    role = k8s.rbac.v1.ClusterRole(name, metadata=metadata, rules=list(rules), opts=component.child())
    bound: pulumi.Resource = k8s.rbac.v1.ClusterRoleBinding(
        name,
        metadata=metadata,
        role_ref=k8s.rbac.v1.RoleRefArgs(api_group=RBAC, kind="ClusterRole", name=account),
        subjects=[_subject(account)],
        opts=component.child(depends_on=[role]),
    )
    return bound


def _apart(selector: Mapping[str, str]) -> k8s.core.v1.TopologySpreadConstraintArgs:
    """Return the wish that the pods run on nodes of their own."""
    return k8s.core.v1.TopologySpreadConstraintArgs(
        max_skew=1,
        topology_key="kubernetes.io/hostname",
        when_unsatisfiable="ScheduleAnyway",
        label_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=selector),
    )


def two_replicas(
    name: str,
    metadata: k8s.meta.v1.ObjectMetaArgs,
    selector: Mapping[str, str],
    account: str,
    container: k8s.core.v1.ContainerArgs,
    opts: pulumi.ResourceOptions,
) -> k8s.apps.v1.Deployment:
    """Create the Deployment of a controller with the labels and the service account given."""
    return k8s.apps.v1.Deployment(
        name,
        # Its image comes from outside: an update does not wait for it.
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name=metadata.name,
            namespace=metadata.namespace,
            labels=metadata.labels,
            annotations={"pulumi.com/skipAwait": "true"},
        ),
        spec=k8s.apps.v1.DeploymentSpecArgs(
            replicas=2,
            selector=k8s.meta.v1.LabelSelectorArgs(match_labels=selector),
            template=k8s.core.v1.PodTemplateSpecArgs(
                metadata=k8s.meta.v1.ObjectMetaArgs(labels=metadata.labels),
                spec=k8s.core.v1.PodSpecArgs(
                    service_account_name=account,
                    automount_service_account_token=True,
                    priority_class_name="system-cluster-critical",
                    # Never on the nodes that it adds and ends.
                    node_selector={"gpufleet.io/node-group": "system"},
                    topology_spread_constraints=[_apart(selector)],
                    security_context=as_nobody(),
                    containers=[container],
                ),
            ),
        ),
        opts=opts,
    )


def _subject(account: str) -> k8s.rbac.v1.SubjectArgs:
    return k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=account, namespace=NAMESPACE)
