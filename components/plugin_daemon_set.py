"""The DaemonSet of a device plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_kubernetes as k8s

PLUGINS = "/var/lib/kubelet/device-plugins"
"""Where the kubelet and its device plugins meet."""


def plugin_daemon_set(
    resource: str,
    app: str,
    nodes: Sequence[k8s.core.v1.NodeSelectorRequirementArgs],
    container: k8s.core.v1.ContainerArgs,
    volumes: list[k8s.core.v1.VolumeArgs],
    taint_keys: Sequence[str],
    labels: Mapping[str, str],
    opts: pulumi.ResourceOptions,
    *,
    host_network: bool = False,
    service_account: str | None = None,
) -> k8s.apps.v1.DaemonSet:
    """Return a device plugin in `kube-system` on all nodes that meet the requirements. Its pods get a token
    for the Kubernetes API only with a service account of their own."""
    selector = {"app.kubernetes.io/name": app}
    on_labelled_nodes = k8s.core.v1.NodeSelectorArgs(
        node_selector_terms=[k8s.core.v1.NodeSelectorTermArgs(match_expressions=nodes)]
    )
    return k8s.apps.v1.DaemonSet(
        resource,
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name=app,
            namespace="kube-system",
            labels={**labels, **selector},
            # GPU nodes join and leave with capacity: an update does not wait for them.
            annotations={"pulumi.com/skipAwait": "true"},
        ),
        spec=k8s.apps.v1.DaemonSetSpecArgs(
            selector=k8s.meta.v1.LabelSelectorArgs(match_labels=selector),
            template=k8s.core.v1.PodTemplateSpecArgs(
                metadata=k8s.meta.v1.ObjectMetaArgs(labels={**labels, **selector}),
                spec=k8s.core.v1.PodSpecArgs(
                    priority_class_name="system-node-critical",
                    automount_service_account_token=service_account is not None,
                    service_account_name=service_account,
                    host_network=host_network or None,
                    affinity=k8s.core.v1.AffinityArgs(
                        node_affinity=k8s.core.v1.NodeAffinityArgs(
                            required_during_scheduling_ignored_during_execution=on_labelled_nodes
                        )
                    ),
                    tolerations=[
                        k8s.core.v1.TolerationArgs(key=key, operator="Exists")
                        for key in dict.fromkeys(["CriticalAddonsOnly", *taint_keys])
                    ],
                    containers=[container],
                    volumes=volumes,
                ),
            ),
        ),
        opts=opts,
    )


def requirement(
    key: str, operator: str = "Exists", values: Sequence[str] | None = None
) -> k8s.core.v1.NodeSelectorRequirementArgs:
    """Return what a node's label must be."""
    return k8s.core.v1.NodeSelectorRequirementArgs(key=key, operator=operator, values=values)


def small() -> k8s.core.v1.ResourceRequirementsArgs:
    """Return what a device plugin needs of its node."""
    return k8s.core.v1.ResourceRequirementsArgs(
        requests={"cpu": "10m", "memory": "32Mi"}, limits={"memory": "128Mi"}
    )


def host_path(name: str, path: str, *, create: bool = False) -> k8s.core.v1.VolumeArgs:
    """Return a volume that is a folder of the node; with `create` it is made where it does not exist."""
    kind = "DirectoryOrCreate" if create else None
    source = k8s.core.v1.HostPathVolumeSourceArgs(path=path, type=kind)
    return k8s.core.v1.VolumeArgs(name=name, host_path=source)
