"""Images of cloud nodes: known releases, and images of the user's own that stay what they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.catalog.models import ImageFamily
from gpufleet.checks.rules import FieldFinding, Fleet, check, did_you_mean, listed, nearest
from gpufleet.plan.images import EKS, SLURM
from gpufleet.spec.models import Kubernetes

_MOVES = re.compile(r"/(recommended|latest|current)(/|$)")


@check("node-image-known", "channel", "version")
def node_image_known(fleet: Fleet) -> Iterator[FieldFinding]:
    """A release of AWS's images is pinned by its facts in the catalog: EKS's release version for each version
    of Kubernetes, and the exact name of a Deep Learning image."""
    own = fleet.spec.software.node_images
    for _, site in fleet.cloud():
        slurm = site.scheduler == "slurm"
        family: ImageFamily = SLURM if slurm else EKS
        release = own.slurm if slurm else own.eks
        version = "" if slurm else (site.kubernetes or Kubernetes()).version
        known = fleet.catalog.image_releases(family, version)
        if release is None or release in known or not known:
            continue
        yield FieldFinding(
            ("software", "node_images", "slurm" if slurm else "eks"),
            f"release {release} of the image of site {site.site!r} is not in the catalog",
            did_you_mean(
                nearest(release, known),
                f"use one of {listed(known, 4)} (`gpufleet catalog node-images`), or set `image` of the node"
                " groups",
            ),
        )


@check("image-stays")
def image_stays(fleet: Fleet) -> Iterator[FieldFinding]:
    """An SSM parameter whose value moves changes the image of nodes in a run for another reason: AWS's
    `recommended` and `latest`, or the newest version of a parameter of your own (Systems Manager User Guide,
    "Working with parameter versions")."""
    for each in fleet.groups():
        image = each.group.image
        if image is None or image.startswith("ami-"):
            continue
        public = image.startswith("/aws/service/")
        if not public and ":" not in image:
            yield FieldFinding(
                (*each.path, "image"),
                f"the image of {each.group.name} is the newest version of the parameter {image}",
                f"write the version that you mean, such as '{image}:1', or an AMI id",
            )
        elif _MOVES.search(image):
            yield FieldFinding(
                (*each.path, "image"),
                f"the image of {each.group.name} is whatever AWS publishes at {image}",
                "name one release, as in .../amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260714/image_id,"
                " or write an AMI id",
            )


@check("node-image-driver", "channel", "version")
def node_image_driver(fleet: Fleet) -> Iterator[FieldFinding]:
    """A release that the fleet file names instead of the channel's can have a driver of another branch than
    racks and the other cloud nodes. Jobs may run with either, so this is a warning."""
    lock, own = fleet.catalog.locks.get(fleet.spec.software.channel), fleet.spec.software.node_images
    if lock is None:
        return
    for _, site in fleet.cloud():
        slurm = site.scheduler == "slurm"
        version = "" if slurm else (site.kubernetes or Kubernetes()).version
        release = (own.slurm if slurm else own.eks) or ""
        image = fleet.catalog.node_images.get((SLURM if slurm else EKS, release, version))
        if image is None or image.driver is None:
            continue
        if image.driver.partition(".")[0] != str(lock.driver_branch):
            yield FieldFinding(
                ("software", "node_images", "slurm" if slurm else "eks"),
                f"release {release} has driver {image.driver}, and channel {lock.channel} locks"
                f" {lock.driver}",
                f"use a release with a driver of branch {lock.driver_branch}"
                " (`gpufleet catalog node-images`), or another channel",
                "warning",
            )


CHECKS = (node_image_known, image_stays, node_image_driver)
