"""Which image the nodes of a group start from, at which release, and with which software."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.catalog import Catalog, InstanceType, NodeImage
from gpufleet.catalog.images import Architecture, EksVariant, eks_image_name
from gpufleet.catalog.models import ImageFamily
from gpufleet.plan.image_models import ImageKind, ImageSoftwarePlan
from gpufleet.spec.models import CloudSite, FleetSpec, Kubernetes, NodeGroup

EKS: ImageFamily = "eks-al2023"
SLURM: ImageFamily = "deep-learning-ubuntu-22.04"
SLURM_NEURON: ImageFamily = "deep-learning-neuron-ubuntu-22.04"


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


def neuron_image(spec: FleetSpec, catalog: Catalog) -> NodeImage:
    """Return AWS's image of Slurm nodes with Neuron devices, at the release of the software channel."""
    return catalog.node_image(SLURM_NEURON, catalog.lock(spec.software.channel).slurm_neuron_image)


def group_image(
    spec: FleetSpec,
    site: CloudSite,
    group: NodeGroup,
    instance: InstanceType,
    locked: NodeImage,
    catalog: Catalog,
) -> tuple[str, ImageKind, str, ImageSoftwarePlan | None]:
    """Return a group's image, its kind, its release and its software; no release of the user's own image.

    The software of the user's own image is unknown, and nodes without accelerators have none to show.
    """
    if group.image is not None:
        return group.image, "ami-id" if group.image.startswith("ami-") else "parameter", "", None
    if site.scheduler == "slurm":
        found = neuron_image(spec, catalog) if instance.neuron else locked
        return found.name, "ami-name", found.release, image_software(found, neuron=instance.neuron)
    variant: EksVariant = "neuron" if instance.neuron else "nvidia" if instance.gpu else "standard"
    software = None if variant == "standard" else image_software(locked, neuron=instance.neuron)
    architecture: Architecture = "arm64" if instance.arm64 else "x86_64"
    return (
        eks_image_name(variant, locked.kubernetes, locked.release, architecture),
        "eks-release",
        locked.version,
        software,
    )


def system_architecture(names: Sequence[str], catalog: Catalog) -> Architecture:
    """Return the architecture of a cluster's system nodes: that of their known types. Types that the catalog
    lacks count as x86_64; `gpufleet.checks` refuses two architectures, and unknown names of Graviton types.
    """
    known = [catalog.instances[name] for name in names if name in catalog.instances]
    return "arm64" if known and all(item.arm64 for item in known) else "x86_64"


def image_software(image: NodeImage, *, neuron: bool = False) -> ImageSoftwarePlan:
    """Return the software of a release as the plan shows it: no CUDA and no NCCL for Neuron devices."""
    efa = f"installer {image.efa_installer}" if image.efa_installer else None
    if image.efa_module:
        efa = f"kernel module {image.efa_module}"
    names = {"efa_installer": "efa", "efa_module": "efa"}
    return ImageSoftwarePlan(
        driver=image.neuron_driver if neuron else image.driver,
        cuda=None if neuron else image.cuda,
        nccl=None if neuron else image.nccl,
        efa=efa,
        aws_ofi_nccl=None if neuron else image.aws_ofi_nccl,
        container_toolkit=None if neuron else image.container_toolkit,
        in_containers=() if neuron else image.in_containers,
        unverified=tuple(names.get(name, name) for name in image.unverified),
        source=image.source,
        accelerator="neuron" if neuron else "gpu",
    )
