"""Neuron's device plugin and scheduler extension, which make Trainium and Inferentia schedulable.

Plain manifests, like the other device plugins, after the Helm chart 1.9.0 (aws-neuron/neuron-helm-charts
@b77a6f90). Left out of it: `nodes/proxy` for the device plugin, which its version of 2024 did not have,
and Kubernetes's role of schedulers, in whose place the second scheduler has a list of resources. Images are
pinned by version: their digests were not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.neuron_scheduler import neuron_scheduler
from gpufleet.components.plugin_daemon_set import (
    PLUGINS,
    host_path,
    plugin_daemon_set,
    requirement,
    small,
)
from gpufleet.components.pod_security import unprivileged
from gpufleet.kinds import NEURON_DEVICE_PLUGIN

NEURON_NODE_LABEL = "gpufleet.io/neuron"
"""The label of nodes with Neuron devices; its value is their name."""

NEURON_IMAGE = "public.ecr.aws/neuron/neuron-device-plugin"

_NAME = NEURON_DEVICE_PLUGIN
_HOST_PATHS = {"device-plugins": PLUGINS, "run": "/run", "aws-config": "/opt/aws"}
"""Where the plugin meets the kubelet, and what it reads of the node's devices and configuration."""


@dataclass(frozen=True, kw_only=True)
class NeuronArgs:
    """What a cluster with Neuron devices runs: the device plugin of `version` (an image's tag), and with a
    `scheduler_image` (Kubernetes's scheduler, of the cluster's minor version) the second scheduler with
    Neuron's extension of `version`."""

    version: str
    scheduler_image: str = ""


def neuron(
    name: str,
    args: NeuronArgs,
    taint_keys: Sequence[str],
    labels: Mapping[str, str],
    images: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> None:
    """Deploy the device plugin on every node with Neuron devices, and the scheduler if it is wanted."""
    _device_plugin(name, args.version, taint_keys, labels, images, opts)
    if args.scheduler_image:
        neuron_scheduler(name, args.version, args.scheduler_image, labels, images, opts)


def _device_plugin(
    name: str,
    version: str,
    taint_keys: Sequence[str],
    labels: Mapping[str, str],
    images: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> k8s.apps.v1.DaemonSet:
    label = f"{name}-{_NAME}"
    meta = k8s.meta.v1.ObjectMetaArgs(name=_NAME, labels=dict(labels))
    account = k8s.core.v1.ServiceAccount(
        label,
        metadata=k8s.meta.v1.ObjectMetaArgs(name=_NAME, namespace="kube-system", labels=dict(labels)),
        opts=opts,
    )
    role = k8s.rbac.v1.ClusterRole(
        label,
        metadata=meta,
        rules=[
            rule("", "nodes", verbs="get list watch"),
            rule("", "nodes/status", verbs="patch update"),
            rule("", "pods", verbs="get list watch patch update"),
            rule("", "events", verbs="create patch"),
        ],
        opts=opts,
    )
    binding = k8s.rbac.v1.ClusterRoleBinding(
        label,
        metadata=meta,
        role_ref=k8s.rbac.v1.RoleRefArgs(
            api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=_NAME
        ),
        subjects=[k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=_NAME, namespace="kube-system")],
        opts=opts,
    )
    container = k8s.core.v1.ContainerArgs(
        name=_NAME,
        image=images.get(NEURON_IMAGE, f"{NEURON_IMAGE}:{version}"),
        env=[
            k8s.core.v1.EnvVarArgs(
                name="NODE_NAME",
                value_from=k8s.core.v1.EnvVarSourceArgs(
                    field_ref=k8s.core.v1.ObjectFieldSelectorArgs(field_path="spec.nodeName")
                ),
            )
        ],
        resources=small(),
        security_context=unprivileged(read_only=False),
        volume_mounts=[
            k8s.core.v1.VolumeMountArgs(name=each, mount_path=path, read_only=each == "aws-config" or None)
            for each, path in _HOST_PATHS.items()
        ],
    )
    return plugin_daemon_set(
        label,
        _NAME,
        [requirement(NEURON_NODE_LABEL)],
        container,
        [host_path(each, path) for each, path in _HOST_PATHS.items()],
        taint_keys,
        labels,
        pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[account, role, binding])),
        service_account=_NAME,
    )


def rule(group: str, *resources: str, verbs: str) -> k8s.rbac.v1.PolicyRuleArgs:
    """Return a rule of a role; `verbs` are separated by spaces."""
    return k8s.rbac.v1.PolicyRuleArgs(api_groups=[group], resources=list(resources), verbs=verbs.split())
