"""A second scheduler with Neuron's extension, which gives a pod neighbouring Neuron devices of one node.

EKS's own scheduler takes no extensions. Pods choose this one by `schedulerName: neuron-scheduler`; those that
take all devices of a node do not need it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.pod_security import as_nobody, unprivileged
from gpufleet.kinds import (
    KUBE_SCHEDULER,
    NEURON_CORE_RESOURCE,
    NEURON_EXTENSION,
    NEURON_RESOURCE,
    NEURON_SCHEDULER,
)

EXTENSION = NEURON_EXTENSION
EXTENSION_IMAGE = "public.ecr.aws/neuron/neuron-scheduler"
EXTENSION_PORT = 12345
"""The port of Neuron's Helm chart."""

_NAMESPACE = "kube-system"
_RBAC = "rbac.authorization.k8s.io"
_HEALTH_PORT = 10259
_READ = "get list watch"

SCHEDULER_RULES: tuple[tuple[str, str, str], ...] = (
    ("", "nodes namespaces services replicationcontrollers persistentvolumeclaims persistentvolumes", _READ),
    ("", "pods", f"{_READ} delete"),
    ("", "pods/binding bindings", "create"),
    ("", "pods/status", "patch update"),
    ("", "pods/finalizers", "update"),
    ("", "events", "create patch update"),
    ("events.k8s.io", "events", "create patch update"),
    ("apps", "replicasets statefulsets", _READ),
    ("policy", "poddisruptionbudgets", _READ),
    ("storage.k8s.io", "csinodes csidrivers csistoragecapacities volumeattachments", _READ),
    ("resource.k8s.io", "deviceclasses resourceslices devicetaintrules", _READ),
    ("resource.k8s.io", "resourceclaims", f"{_READ} create delete patch update"),
    ("resource.k8s.io", "resourceclaims/status", f"{_READ} patch update"),
    ("scheduling.k8s.io", "workloads", _READ),
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
)
"""Group, resources and verbs of a scheduler: those of Kubernetes's role `system:kube-scheduler`, which is for
its own scheduler. Leases are in a role of their namespace."""

EXTENSION_RULES: tuple[tuple[str, str, str], ...] = (
    ("", "nodes", _READ),
    ("", "nodes/status", f"{_READ} patch update"),
    ("", "pods", f"{_READ} patch update"),
    ("", "pods/binding bindings", "create"),
    ("", "events", "create patch"),
)
"""What the extension needs: it notes the devices that it chose at the pod, and binds the pod (Neuron's Helm
chart)."""


def neuron_scheduler(
    name: str,
    version: str,
    scheduler_image: str,
    labels: Mapping[str, str],
    images: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> None:
    """Deploy the scheduler and the extension of `version` on the system nodes."""
    made = _Parts(name, labels, opts)
    made.account(EXTENSION, EXTENSION_RULES)
    made.account(NEURON_SCHEDULER, SCHEDULER_RULES)
    made.bind_as_scheduler()
    made.extension(images.get(EXTENSION_IMAGE, f"{EXTENSION_IMAGE}:{version}"))
    made.scheduler(images.get(KUBE_SCHEDULER, scheduler_image))


def scheduler_configuration() -> str:
    """Return the configuration of the scheduler, as JSON, which its reader of YAML takes.

    A pod that requests Neuron devices waits while the extension does not answer; others do not ask it.
    """
    extender = {
        "urlPrefix": f"http://{EXTENSION}.{_NAMESPACE}.svc:{EXTENSION_PORT}",
        "filterVerb": "filter",
        "bindVerb": "bind",
        "enableHTTPS": False,
        "nodeCacheCapable": False,
        "ignorable": False,
        "managedResources": [
            {"name": resource, "ignoredByScheduler": False}
            for resource in (NEURON_RESOURCE, NEURON_CORE_RESOURCE)
        ],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": NEURON_SCHEDULER}],
        "extenders": [extender],
        "leaderElection": {
            "leaderElect": True,
            "resourceNamespace": _NAMESPACE,
            "resourceName": NEURON_SCHEDULER,
        },
    }
    return json.dumps(document, indent=1)


class _Parts:
    """The objects of the scheduler and its extension."""

    def __init__(self, name: str, labels: Mapping[str, str], opts: pulumi.ResourceOptions) -> None:
        self._name = name
        self._labels = dict(labels)
        self._opts = opts
        self._before: list[pulumi.Resource] = []

    def account(self, app: str, rules: tuple[tuple[str, str, str], ...]) -> None:
        """Create a service account and its role."""
        label = f"{self._name}-{app}"
        cluster_wide = k8s.meta.v1.ObjectMetaArgs(name=app, labels=self._labels)
        account = k8s.core.v1.ServiceAccount(label, metadata=self._meta(app), opts=self._opts)
        role = k8s.rbac.v1.ClusterRole(
            label,
            metadata=cluster_wide,
            rules=[
                k8s.rbac.v1.PolicyRuleArgs(
                    api_groups=[group], resources=resources.split(), verbs=verbs.split()
                )
                for group, resources, verbs in rules
            ],
            opts=self._opts,
        )
        binding = k8s.rbac.v1.ClusterRoleBinding(
            label,
            metadata=cluster_wide,
            role_ref=k8s.rbac.v1.RoleRefArgs(api_group=_RBAC, kind="ClusterRole", name=app),
            subjects=[self._subject(app)],
            opts=self._opts,
        )
        self._before += [account, role, binding]

    def bind_as_scheduler(self) -> None:
        """Let the scheduler bind volumes, lead by a lease, and check who asks it."""
        label = f"{self._name}-{NEURON_SCHEDULER}"
        volumes = k8s.rbac.v1.ClusterRoleBinding(
            f"{label}-volumes",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=f"{NEURON_SCHEDULER}-volumes", labels=self._labels),
            role_ref=k8s.rbac.v1.RoleRefArgs(
                api_group=_RBAC, kind="ClusterRole", name="system:volume-scheduler"
            ),
            subjects=[self._subject(NEURON_SCHEDULER)],
            opts=self._opts,
        )
        leases = k8s.rbac.v1.Role(
            f"{label}-leases",
            metadata=self._meta(NEURON_SCHEDULER),
            rules=[
                k8s.rbac.v1.PolicyRuleArgs(
                    api_groups=["coordination.k8s.io"],
                    resources=["leases"],
                    verbs=["create", "get", "list", "update", "watch"],
                )
            ],
            opts=self._opts,
        )
        self._before += [volumes, leases]
        # The second role is Kubernetes's own, in every cluster.
        for part, role in (
            ("leases", NEURON_SCHEDULER),
            ("authentication", "extension-apiserver-authentication-reader"),
        ):
            self._before.append(
                k8s.rbac.v1.RoleBinding(
                    f"{label}-{part}-binding",
                    metadata=self._meta(f"{NEURON_SCHEDULER}-{part}"),
                    role_ref=k8s.rbac.v1.RoleRefArgs(api_group=_RBAC, kind="Role", name=role),
                    subjects=[self._subject(NEURON_SCHEDULER)],
                    opts=self._opts,
                )
            )

    def extension(self, image: str) -> None:
        """Create the extension, its service, and a policy that lets only the scheduler ask it."""
        label = f"{self._name}-{EXTENSION}"
        container = k8s.core.v1.ContainerArgs(
            name=EXTENSION,
            image=image,
            env=[k8s.core.v1.EnvVarArgs(name="PORT", value=str(EXTENSION_PORT))],
            ports=[k8s.core.v1.ContainerPortArgs(name="http", container_port=EXTENSION_PORT)],
            resources=_resources("200m", "128Mi", "256Mi"),
            security_context=unprivileged(),
        )
        self._deployment(EXTENSION, container)
        selected = {"app.kubernetes.io/name": EXTENSION}
        k8s.core.v1.Service(
            label,
            # The provider waits for endpoints otherwise, which come once the image is pulled.
            metadata=self._meta(EXTENSION, annotations={"pulumi.com/skipAwait": "true"}),
            spec=k8s.core.v1.ServiceSpecArgs(
                selector=selected,
                ports=[
                    k8s.core.v1.ServicePortArgs(name="http", port=EXTENSION_PORT, target_port=EXTENSION_PORT)
                ],
            ),
            opts=self._opts,
        )
        asks = k8s.networking.v1.NetworkPolicyPeerArgs(
            pod_selector=k8s.meta.v1.LabelSelectorArgs(
                match_labels={"app.kubernetes.io/name": NEURON_SCHEDULER}
            )
        )
        k8s.networking.v1.NetworkPolicy(
            label,
            metadata=self._meta(EXTENSION),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=selected),
                policy_types=["Ingress"],
                ingress=[
                    k8s.networking.v1.NetworkPolicyIngressRuleArgs(
                        from_=[asks],
                        ports=[k8s.networking.v1.NetworkPolicyPortArgs(port=EXTENSION_PORT, protocol="TCP")],
                    )
                ],
            ),
            opts=self._opts,
        )

    def scheduler(self, image: str) -> None:
        """Create the scheduler and its configuration."""
        config = k8s.core.v1.ConfigMap(
            f"{self._name}-{NEURON_SCHEDULER}",
            metadata=self._meta(NEURON_SCHEDULER),
            data={"config.yaml": scheduler_configuration()},
            opts=self._opts,
        )
        self._before.append(config)
        probe = k8s.core.v1.ProbeArgs(
            http_get=k8s.core.v1.HTTPGetActionArgs(path="/healthz", port=_HEALTH_PORT, scheme="HTTPS"),
            initial_delay_seconds=15,
        )
        container = k8s.core.v1.ContainerArgs(
            name=NEURON_SCHEDULER,
            image=image,
            command=["kube-scheduler", "--config=/etc/neuron-scheduler/config.yaml"],
            liveness_probe=probe,
            readiness_probe=probe,
            resources=_resources("100m", "128Mi", "512Mi"),
            security_context=unprivileged(),
            volume_mounts=[
                k8s.core.v1.VolumeMountArgs(name="config", mount_path="/etc/neuron-scheduler", read_only=True)
            ],
        )
        volume = k8s.core.v1.VolumeArgs(
            name="config", config_map=k8s.core.v1.ConfigMapVolumeSourceArgs(name=NEURON_SCHEDULER)
        )
        self._deployment(NEURON_SCHEDULER, container, volume)

    def _deployment(
        self, app: str, container: k8s.core.v1.ContainerArgs, *volumes: k8s.core.v1.VolumeArgs
    ) -> None:
        selector = {"app.kubernetes.io/name": app}
        k8s.apps.v1.Deployment(
            f"{self._name}-{app}",
            # Its image comes from outside: an update does not wait for it.
            metadata=self._meta(app, annotations={"pulumi.com/skipAwait": "true"}),
            spec=k8s.apps.v1.DeploymentSpecArgs(
                replicas=1,
                # Two extensions would choose the same devices.
                strategy=k8s.apps.v1.DeploymentStrategyArgs(type="Recreate"),
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels=selector),
                template=k8s.core.v1.PodTemplateSpecArgs(
                    metadata=k8s.meta.v1.ObjectMetaArgs(labels={**self._labels, **selector}),
                    spec=k8s.core.v1.PodSpecArgs(
                        service_account_name=app,
                        automount_service_account_token=True,
                        priority_class_name="system-cluster-critical",
                        node_selector={"gpufleet.io/node-group": "system"},
                        security_context=as_nobody(),
                        containers=[container],
                        volumes=list(volumes),
                    ),
                ),
            ),
            opts=pulumi.ResourceOptions.merge(self._opts, pulumi.ResourceOptions(depends_on=self._before)),
        )

    def _meta(self, name: str, annotations: Mapping[str, str] | None = None) -> k8s.meta.v1.ObjectMetaArgs:
        return k8s.meta.v1.ObjectMetaArgs(
            name=name, namespace=_NAMESPACE, labels=self._labels, annotations=annotations
        )

    def _subject(self, app: str) -> k8s.rbac.v1.SubjectArgs:
        return k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=app, namespace=_NAMESPACE)


def _resources(cpu: str, memory: str, limit: str) -> k8s.core.v1.ResourceRequirementsArgs:
    return k8s.core.v1.ResourceRequirementsArgs(
        requests={"cpu": cpu, "memory": memory}, limits={"memory": limit}
    )
