"""The image of a node group: where its id comes from, and the software that it has."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpufleet.catalog.accelerator import AcceleratorKind

ImageKind = Literal["eks-release", "ami-name", "ami-id", "parameter"]
"""How the image is identified: by the public parameter of a release of EKS's image, by the exact name of one
of AWS's AMIs, by an AMI id, or by an SSM parameter."""


class ImageSoftwarePlan(Struct, frozen=True):
    """The software of one release of AWS's images, from its release notes.

    None is a version that was not read; `in_containers` lists software that is not part of the image, and
    `unverified` versions that were not read in AWS's notes of this image. `efa` says what the version is of:
    the kernel module or the installer. `driver` is that of the `accelerator`: NVIDIA's, or Neuron's, whose
    images have no CUDA, no NCCL and no container toolkit.
    """

    driver: str | None
    cuda: str | None
    nccl: str | None
    efa: str | None
    aws_ofi_nccl: str | None
    container_toolkit: str | None
    in_containers: tuple[str, ...]
    unverified: tuple[str, ...]
    source: str
    accelerator: AcceleratorKind


class LocalNvmePlan(Struct, frozen=True):
    """The striped NVMe drives of a node: how many, and GB together of the first instance type.

    `mount` is where Slurm nodes see them; None on Kubernetes, where they carry containers and volumes.
    """

    drives: int
    gb: int
    mount: str | None
