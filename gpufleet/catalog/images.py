"""The images of EKS nodes: their names, and the public parameters with their ids."""

from __future__ import annotations

import re
from typing import Literal

EKS_IMAGE = "AL2023_x86_64_STANDARD"
EKS_GPU_IMAGE = "AL2023_x86_64_NVIDIA"
EKS_NEURON_IMAGE = "AL2023_x86_64_NEURON"
EKS_ARM_IMAGE = "AL2023_ARM_64_STANDARD"
"""AMI types of EKS: Amazon Linux 2023, the same with NVIDIA's or Neuron's driver, and for Arm processors (EKS
API reference, Nodegroup)."""

EksVariant = Literal["standard", "nvidia", "neuron"]
Architecture = Literal["x86_64", "arm64"]

_PREFIX = "amazon-eks-node-al2023-"
_NAME = re.compile(_PREFIX + r"(?P<arch>x86_64|arm64)-(?P<variant>[a-z]+)-(?P<kubernetes>\d+\.\d+)-.+")
_IN_PARAMETER = re.compile(r"(?:^|[/-])(?P<arch>x86_64|amd64|arm64|aarch64)(?=[/-]|$)")
_VARIANT = re.compile(r"/(?P<variant>standard|nvidia|neuron)/")


def eks_image_name(
    variant: EksVariant, kubernetes: str, release: str, architecture: Architecture = "x86_64"
) -> str:
    """Return the name of EKS's image for a minor version of Kubernetes, at the release of a day
    (awslabs/amazon-eks-ami, CHANGELOG)."""
    return f"{_PREFIX}{architecture}-{variant}-{kubernetes}-v{release}"


def eks_image_parameter(name: str) -> str:
    """Return the public SSM parameter with the AMI id of this exact image.

    The name stands where EKS's documentation has `recommended`; Karpenter resolves pinned releases so
    (karpenter-provider-aws, pkg/providers/amifamily/al2023.go). Raises ValueError for another name.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is not the name of an image of EKS")
    arch, variant, kubernetes = found["arch"], found["variant"], found["kubernetes"]
    return f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{arch}/{variant}/{name}/image_id"


def image_architecture(parameter: str) -> Architecture | None:
    """Return the architecture that one of AWS's public SSM parameters names for its image; None if it names
    none, and for parameters of the user's own."""
    found = _IN_PARAMETER.search(parameter) if parameter.startswith("/aws/service/") else None
    if found is None:
        return None
    return "arm64" if found["arch"] in ("arm64", "aarch64") else "x86_64"


def image_variant(parameter: str) -> EksVariant | None:
    """Return the drivers of EKS's image that a public SSM parameter names; None for another parameter."""
    found = _VARIANT.search(parameter) if parameter.startswith("/aws/service/eks/") else None
    variants: dict[str, EksVariant] = {"standard": "standard", "nvidia": "nvidia", "neuron": "neuron"}
    return variants[found["variant"]] if found is not None else None
