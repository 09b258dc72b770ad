"""Nvsentinel: NVIDIA's detection of faulty GPUs as a pinned Helm release, and what it needs in the cluster.

Values are those of the chart in NVIDIA/NVSentinel, distros/kubernetes/nvsentinel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.base import Component
from gpufleet.components.device_plugins import GPU_NODE_LABEL
from gpufleet.components.gpu_operator import NAMESPACE as GPU_OPERATOR_NAMESPACE
from gpufleet.kinds import NOTICES_NAMESPACE, FaultRepairAction

CHART = "oci://ghcr.io/nvidia/nvsentinel"
NAMESPACE = "nvsentinel"
"""Name and namespace of the release: the network policy of its database needs both to be the same."""

CERT_MANAGER_REPOSITORY = "https://charts.jetstack.io"
CERT_MANAGER = "cert-manager"
STORAGE_CLASS = "gpufleet-nvsentinel"

OFF = ("cspHealthMonitor", "faultRemediation", "janitor", "janitorProvider", "metadataCollector")
"""Modules that call AWS, restart or replace nodes; and one that is privileged and may use `nodes/proxy`."""

_SYSTEM = {"gpufleet.io/node-group": "system"}
_KEPT_NAMESPACES = (
    NAMESPACE,
    CERT_MANAGER,
    GPU_OPERATOR_NAMESPACE,
    NOTICES_NAMESPACE,
    "kube-system",
    # Its pods hold the volumes of others, and end after them.
    "mount-s3",
)


@dataclass(frozen=True, kw_only=True)
class NvsentinelArgs:
    """Inputs of `Nvsentinel`.

    `action` is how far it goes: `detect` sets conditions and events of nodes, `quarantine` also cordons, and
    `drain` also deletes the node's pods after `drain_after_min` minutes. `taint_keys` are the taints of the
    GPU nodes. The versions are those of the charts as they are tagged (`v1.14.0`).
    """

    version: str
    cert_manager_version: str
    action: FaultRepairAction = "detect"
    drain_after_min: int = 60
    taint_keys: Sequence[str] = ("nvidia.com/gpu",)
    labels: Mapping[str, str]


class Nvsentinel(Component):
    """The release, and for actions that read events: cert-manager and a class of encrypted volumes."""

    def __init__(self, name: str, args: NvsentinelArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpufleet:kubernetes:Nvsentinel", name, {}, opts)
        needed = [] if args.action == "detect" else self._for_events(name, args)
        k8s.helm.v3.Release(
            name,
            name=NAMESPACE,
            chart=CHART,
            version=args.version,
            namespace=NAMESPACE,
            create_namespace=True,
            timeout=900,
            # GPU nodes join and leave with capacity: an update does not wait for them.
            skip_await=True,
            values=values(args),
            opts=self.child(depends_on=needed),
        )
        self.register_outputs({})

    def _for_events(self, name: str, args: NvsentinelArgs) -> list[pulumi.Resource]:
        """Create what the database needs: volumes, and an issuer of its certificates."""
        volumes = k8s.storage.v1.StorageClass(
            name,
            metadata=k8s.meta.v1.ObjectMetaArgs(name=STORAGE_CLASS, labels=args.labels),
            provisioner="ebs.csi.aws.com",
            parameters={"type": "gp3", "encrypted": "true"},
            volume_binding_mode="WaitForFirstConsumer",
            reclaim_policy="Delete",
            opts=self.child(),
        )
        issuer = k8s.helm.v3.Release(
            f"{name}-{CERT_MANAGER}",
            name=CERT_MANAGER,
            chart=CERT_MANAGER,
            version=args.cert_manager_version,
            repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=CERT_MANAGER_REPOSITORY),
            namespace=CERT_MANAGER,
            create_namespace=True,
            timeout=900,
            # Awaited: its webhook judges the certificates of the other release.
            values={
                "crds": {"enabled": True},
                "nodeSelector": _SYSTEM,
                **{part: {"nodeSelector": _SYSTEM} for part in ("webhook", "cainjector", "startupapicheck")},
            },
            opts=self.child(),
        )
        return [volumes, issuer]


def values(args: NvsentinelArgs) -> dict[str, Any]:
    """Return the values of the chart: what detects, and only the actions that are asked for.

    The published chart has the tag of its version; that of the repository has `main`.
    """
    acts = args.action != "detect"
    found: dict[str, Any] = {
        "global": {
            "image": {"tag": args.version},
            "tolerations": [{"key": key, "operator": "Exists"} for key in dict.fromkeys(args.taint_keys)],
            "systemNodeSelector": _SYSTEM,
            "dcgm": {
                "mode": "operator-service",
                "service": {"endpoint": f"nvidia-dcgm.{GPU_OPERATOR_NAMESPACE}.svc", "port": 5555},
            },
            "gpuHealthMonitor": {"enabled": True},
            "syslogHealthMonitor": {"enabled": True},
            "labeler": {"enabled": True},
            "mongodbStore": {"enabled": acts},
            "faultQuarantine": {"enabled": acts},
            "nodeDrainer": {"enabled": args.action == "drain"},
            **{module: {"enabled": False} for module in OFF},
        },
        # Its socket is for monitors of the same node, and these run on GPU nodes.
        "platformConnector": {"affinity": _ON_GPU_NODES},
        # EKS's image has the driver: there is no pod of it to be found.
        "labeler": {"assumeDriverInstalled": True},
        # The Prometheus Operator's kind is not in the cluster.
        "podMonitor": {"enabled": False},
    }
    if acts:
        found["mongodb-store"] = {
            "job": {"nodeSelector": _SYSTEM},
            "mongodb": {
                "nodeSelector": _SYSTEM,
                "persistence": {"storageClass": STORAGE_CLASS},
                # Else the volumes stay, and are charged, after the release.
                "persistentVolumeClaimRetentionPolicy": {
                    "enabled": True,
                    "whenDeleted": "Delete",
                    "whenScaled": "Retain",
                },
            },
        }
    if args.action == "drain":
        found["node-drainer"] = {
            "systemNamespaces": f"^({'|'.join(_KEPT_NAMESPACES)})$",
            "deleteAfterTimeoutMinutes": args.drain_after_min,
            "userNamespaces": [{"name": "*", "mode": "DeleteAfterTimeout"}],
        }
    return found


_ON_GPU_NODES = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": GPU_NODE_LABEL, "operator": "Exists"}]}]
        }
    }
}
