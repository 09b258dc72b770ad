"""The handler of AWS's notices as a Deployment: gpufleet's own code on an image that has boto3."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from gpufleet import notices
from gpufleet.components.base import Component
from gpufleet.components.pod_security import NOBODY, as_nobody, unprivileged
from gpufleet.kinds import NOTICES_NAMESPACE, NOTICES_SERVICE_ACCOUNT

IMAGE = "public.ecr.aws/lambda/python:3.13"
"""AWS's image for Python functions: it has boto3 in `LIBRARIES` (AWS Lambda developer guide, "Deploy Python
Lambda functions with container images"). Nothing of Lambda is started."""

LIBRARIES = "/var/runtime"
METRICS_PORT = 9823
STATE = "/var/lib/gpufleet-notices"
_CODE = "notices.pyz"
_MAIN = "import sys\n\nfrom gpufleet.notices.__main__ import main\n\nsys.exit(main(sys.argv[1:]))\n"


@dataclass(frozen=True, kw_only=True)
class NoticeHandlerArgs:
    """Inputs of `NoticeHandler`: the settings of the handler (`gpufleet.notices.settings`), and labels.

    `image` replaces the image, for clusters with their own registry: it needs Python 3.11 and boto3.
    """

    settings: Mapping[str, Any]
    queue_url: pulumi.Input[str]
    labels: Mapping[str, str]
    image: str = IMAGE


class NoticeHandler(Component):
    """One pod on the system nodes. Its notes are in the pod, and again on the nodes that it cordoned."""

    def __init__(
        self, name: str, args: NoticeHandlerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpufleet:interruption:NoticeHandler", name, {}, opts)
        self._name, self._labels = name, {**args.labels, "app.kubernetes.io/name": NOTICES_SERVICE_ACCOUNT}
        namespace = k8s.core.v1.Namespace(
            name,
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=NOTICES_NAMESPACE,
                labels={**args.labels, "pod-security.kubernetes.io/enforce": "restricted"},
            ),
            opts=self.child(),
        )
        inside = self.child(depends_on=[namespace])
        k8s.networking.v1.NetworkPolicy(
            name,
            metadata=self._meta(),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=k8s.meta.v1.LabelSelectorArgs(),
                policy_types=["Ingress"],
                ingress=[
                    k8s.networking.v1.NetworkPolicyIngressRuleArgs(
                        ports=[k8s.networking.v1.NetworkPolicyPortArgs(port=METRICS_PORT, protocol="TCP")]
                    )
                ],
            ),
            opts=inside,
        )
        account = k8s.core.v1.ServiceAccount(
            name, metadata=self._meta(), automount_service_account_token=False, opts=inside
        )
        self._rights()
        settings = pulumi.Output.json_dumps(
            {
                **args.settings,
                "queue_url": args.queue_url,
                "state": STATE,
                "metrics_address": "0.0.0.0",  # noqa: S104 - in the pod; the network policy opens one port
                "metrics_port": METRICS_PORT,
            },
            sort_keys=True,
        )
        code = handler_code()
        # By its content: the pod of a new version must not find the code of the old one.
        self._code_name = f"{NOTICES_SERVICE_ACCOUNT}-{hashlib.sha256(code).hexdigest()[:8]}"
        config = k8s.core.v1.ConfigMap(
            name,
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=self._code_name, namespace=NOTICES_NAMESPACE, labels=self._labels
            ),
            binary_data={_CODE: base64.b64encode(code).decode()},
            opts=inside,
        )
        self._deployment(args.image, settings, self.child(depends_on=[account, config]))
        self.register_outputs({})

    def _meta(self) -> k8s.meta.v1.ObjectMetaArgs:
        return k8s.meta.v1.ObjectMetaArgs(
            name=NOTICES_SERVICE_ACCOUNT, namespace=NOTICES_NAMESPACE, labels=self._labels
        )

    def _rights(self) -> None:
        """Nodes are cordoned; pods are annotated and deleted. Nothing is created, and no secret is read."""
        meta = k8s.meta.v1.ObjectMetaArgs(name=NOTICES_SERVICE_ACCOUNT, labels=self._labels)
        role = k8s.rbac.v1.ClusterRole(
            self._name,
            metadata=meta,
            rules=[
                k8s.rbac.v1.PolicyRuleArgs(
                    api_groups=[""], resources=["nodes"], verbs=["get", "list", "patch"]
                ),
                k8s.rbac.v1.PolicyRuleArgs(
                    api_groups=[""], resources=["pods"], verbs=["get", "list", "patch", "delete"]
                ),
            ],
            opts=self.child(),
        )
        k8s.rbac.v1.ClusterRoleBinding(
            self._name,
            metadata=meta,
            role_ref=k8s.rbac.v1.RoleRefArgs(
                api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=NOTICES_SERVICE_ACCOUNT
            ),
            subjects=[
                k8s.rbac.v1.SubjectArgs(
                    kind="ServiceAccount", name=NOTICES_SERVICE_ACCOUNT, namespace=NOTICES_NAMESPACE
                )
            ],
            opts=self.child(depends_on=[role]),
        )

    def _deployment(self, image: str, settings: pulumi.Output[str], opts: pulumi.ResourceOptions) -> None:
        container = k8s.core.v1.ContainerArgs(
            name="notices",
            image=image,
            command=["python3", f"/etc/gpufleet/{_CODE}", settings],
            env=[k8s.core.v1.EnvVarArgs(name="PYTHONPATH", value=LIBRARIES)],
            ports=[k8s.core.v1.ContainerPortArgs(name="metrics", container_port=METRICS_PORT)],
            resources=k8s.core.v1.ResourceRequirementsArgs(
                requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "512Mi"}
            ),
            liveness_probe=k8s.core.v1.ProbeArgs(
                http_get=k8s.core.v1.HTTPGetActionArgs(path="/metrics", port="metrics"),
                initial_delay_seconds=30,
                period_seconds=30,
            ),
            security_context=unprivileged(),
            volume_mounts=[
                k8s.core.v1.VolumeMountArgs(name="code", mount_path="/etc/gpufleet", read_only=True),
                k8s.core.v1.VolumeMountArgs(name="state", mount_path=STATE),
            ],
        )
        k8s.apps.v1.Deployment(
            self._name,
            metadata=self._meta(),
            spec=k8s.apps.v1.DeploymentSpecArgs(
                replicas=1,
                # Two handlers would both act on a notice.
                strategy=k8s.apps.v1.DeploymentStrategyArgs(type="Recreate"),
                selector=k8s.meta.v1.LabelSelectorArgs(
                    match_labels={"app.kubernetes.io/name": NOTICES_SERVICE_ACCOUNT}
                ),
                template=k8s.core.v1.PodTemplateSpecArgs(
                    metadata=k8s.meta.v1.ObjectMetaArgs(labels=self._labels),
                    spec=k8s.core.v1.PodSpecArgs(
                        service_account_name=NOTICES_SERVICE_ACCOUNT,
                        automount_service_account_token=True,
                        priority_class_name="system-cluster-critical",
                        node_selector={"kubernetes.io/os": "linux"},
                        security_context=as_nobody(fs_group=NOBODY),
                        containers=[container],
                        volumes=[
                            k8s.core.v1.VolumeArgs(
                                name="code",
                                config_map=k8s.core.v1.ConfigMapVolumeSourceArgs(name=self._code_name),
                            ),
                            k8s.core.v1.VolumeArgs(
                                name="state", empty_dir=k8s.core.v1.EmptyDirVolumeSourceArgs()
                            ),
                        ],
                    ),
                ),
            ),
            opts=opts,
        )


def handler_code() -> bytes:
    """Return the handler as one file that Python runs; the same code gives the same bytes."""
    folder = Path(notices.__file__).parent
    files = {"__main__.py": _MAIN, "gpufleet/__init__.py": ""}
    files |= {
        f"gpufleet/notices/{path.name}": path.read_text(encoding="utf-8")
        for path in sorted(folder.glob("*.py"))
    }
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            # No time of today in it.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return written.getvalue()
