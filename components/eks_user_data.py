"""User data by which a node whose image the launch template names joins an EKS cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gpufleet.user_data import encoded, mime_document


def join_config(
    name: str, endpoint: str, certificate: str, service_cidr: str, taints: Sequence[str] = ()
) -> str:
    """Return the NodeConfig by which a node joins a cluster (awslabs/amazon-eks-ami, nodeadm API).

    `certificate` is in base64. `taints` (`key=value:Effect`) are set as the node registers: those of the node
    group follow only after it has joined (EKS User Guide, "Limits and conditions when specifying an AMI
    ID"), and pods without a toleration would be there first. Values are JSON, which is YAML too.
    """
    spec: dict[str, Any] = {
        "cluster": {
            "name": name,
            "apiServerEndpoint": endpoint,
            "certificateAuthority": certificate,
            "cidr": service_cidr,
        }
    }
    if taints:
        spec["kubelet"] = {"flags": [f"--register-with-taints={','.join(taints)}"]}
    return f"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {json.dumps(spec)}\n"


def eks_user_data(config: str, parts: Sequence[str]) -> str:
    """Return the NodeConfig and the parts after it as launch templates take them."""
    return encoded(mime_document([config, *parts]))
