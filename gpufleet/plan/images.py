"""Which image the nodes of a group start from, at which release, and with which software."""

from __future__ import annotations

from gpufleet.catalog import Catalog, NodeImage
from gpufleet.catalog.images import EksVariant, eks_image_name
from gpufleet.catalog.models import ImageFamily
from gpufleet.plan.image_models import ImageKind, ImageSoftwarePlan
from gpufleet.plan.marks import NEURON
from gpufleet.spec.models import CloudSite, FleetSpec, Kubernetes, NodeGroup

EKS: ImageFamily = "eks-al2023"
SLURM: ImageFamily = "deep-learning-ubuntu-22.04"


def locked_image(spec: FleetSpec, site: CloudSite, catalog: Catalog) -> NodeImage:
    """Return AWS's image of a site's nodes at its locked release.

    The release is that of the fleet file, else that of the software channel. Raises InputError for a release
    that the catalog lacks; `gpufleet.checks` says so with a line first.
    """
    lock, own = catalog.lock(spec.software.channel), spec.software.node_images
    if site.scheduler == "slurm":
        return catalog.node_image(SLURM, own.slurm or lock.slurm_image)
    version = (site.kubernetes or Kubernetes()).version
    return catalog.node_image(EKS, own.eks or lock.eks_image, version)


def group_image(
    site: CloudSite, group: NodeGroup, gpu: str, locked: NodeImage
) -> tuple[str, ImageKind, str, ImageSoftwarePlan | None]:
    """Return a group's image, its kind, its release and its software; no release of the user's own image.

    The software of the user's own image is unknown, and nodes without NVIDIA GPUs have none to show.
    """
    if group.image is not None:
        return group.image, "ami-id" if group.image.startswith("ami-") else "parameter", "", None
    if site.scheduler == "slurm":
        return locked.name, "ami-name", locked.release, image_software(locked)
    variant: EksVariant = "neuron" if gpu in NEURON else "nvidia" if gpu else "standard"
    software = image_software(locked) if variant == "nvidia" else None
    return (
        eks_image_name(variant, locked.kubernetes, locked.release),
        "eks-release",
        locked.version,
        software,
    )


def image_software(image: NodeImage) -> ImageSoftwarePlan:
    """Return the software of a release as the plan shows it."""
    efa = f"installer {image.efa_installer}" if image.efa_installer else None
    if image.efa_module:
        efa = f"kernel module {image.efa_module}"
    names = {"efa_installer": "efa", "efa_module": "efa"}
    return ImageSoftwarePlan(
        driver=image.driver,
        cuda=image.cuda,
        nccl=image.nccl,
        efa=efa,
        aws_ofi_nccl=image.aws_ofi_nccl,
        container_toolkit=image.container_toolkit,
        in_containers=image.in_containers,
        unverified=tuple(names.get(name, name) for name in image.unverified),
        source=image.source,
    )
