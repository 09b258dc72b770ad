"""The images of EKS nodes: their names, and the public parameters with their ids."""

from __future__ import annotations

from typing import Literal

EKS_IMAGE = "AL2023_x86_64_STANDARD"
EKS_GPU_IMAGE = "AL2023_x86_64_NVIDIA"
"""AMI types of EKS: Amazon Linux 2023, and the same with NVIDIA's driver (EKS API reference, Nodegroup)."""

EksVariant = Literal["standard", "nvidia", "neuron"]

_PREFIX = "amazon-eks-node-al2023-x86_64-"


def eks_image_name(variant: EksVariant, kubernetes: str, release: str) -> str:
    """Return the name of EKS's image for a minor version of Kubernetes, at the release of a day
    (awslabs/amazon-eks-ami, CHANGELOG)."""
    return f"{_PREFIX}{variant}-{kubernetes}-v{release}"


def eks_image_parameter(name: str) -> str:
    """Return the public SSM parameter with the AMI id of this exact image.

    The name stands where EKS's documentation has `recommended`; Karpenter resolves pinned releases so
    (karpenter-provider-aws, pkg/providers/amifamily/al2023.go). Raises ValueError for another name.
    """
    variant, _, rest = name.removeprefix(_PREFIX).partition("-")
    kubernetes = rest.partition("-")[0]
    if not name.startswith(_PREFIX) or not kubernetes:
        raise ValueError(f"{name!r} is not the name of an image of EKS")
    return f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/x86_64/{variant}/{name}/image_id"
