"""Processors and images that fit: x86_64, or Arm (Graviton) where there is an image for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.catalog.images import image_architecture, image_variant
from gpufleet.checks.rules import FieldFinding, Fleet, LocatedGroup, SpecPath, check, listed

_GRAVITON = re.compile(r"(a1|[a-z]+\d+g[a-z]*)\.")
"""Names of Arm types: a `g` after the generation (EC2 user guide, "Instance type naming conventions")."""

_DRIVERS = {"nvidia": "NVIDIA's driver", "neuron": "Neuron's driver", "standard": "no driver"}


@check("architecture-unsupported")
def architecture_unsupported(fleet: Fleet) -> Iterator[FieldFinding]:
    """Images of nodes with accelerators and of Slurm nodes are for x86_64. An Arm instance cannot boot them:
    it can be a system node, or a node without accelerators of an EKS site."""
    for each in fleet.groups():
        for index, name in enumerate(each.group.instance_types):
            known = fleet.catalog.instances.get(name)
            if known is None or not known.arm64:
                continue
            accelerated = known.accelerator is not None or known.accelerator_unknown
            if each.site.scheduler == "kubernetes" and not accelerated:
                continue
            kind = "with accelerators" if accelerated else "of Slurm"
            yield FieldFinding(
                (*each.path, "instance_types", index),
                f"{name} is {'/'.join(known.architectures)}, but the images of nodes {kind} are for x86_64",
                "use a type with Intel or AMD processors",
            )


@check("system-nodes-architecture")
def system_nodes_architecture(fleet: Fleet) -> Iterator[FieldFinding]:
    """All system nodes of a cluster start from one image, for x86_64 or for Arm. That of types which are not
    in the catalog is for x86_64."""
    for path, site in fleet.cloud():
        names = site.kubernetes.system_nodes.instance_types if site.kubernetes is not None else ()
        arm = [_is_arm(fleet, name) for name in names]
        for index, name in enumerate(names):
            where: SpecPath = (*path, "kubernetes", "system_nodes", "instance_types", index)
            if name not in fleet.catalog.instances and arm[index]:
                yield FieldFinding(
                    where,
                    f"{name} has the name of a Graviton type and is not in the catalog: its nodes would start"
                    " from an image for x86_64",
                    "use a type of `gpufleet catalog`, or run `gpufleet catalog refresh`",
                )
            elif arm[index] != arm[0]:
                yield FieldFinding(
                    where,
                    f"{name} is {_title(arm[index])} and {names[0]} is {_title(arm[0])}:"
                    " no image runs on both",
                    f"list only types that are {_title(arm[0])}",
                )


@check("image-architecture")
def image_architecture_fits(fleet: Fleet) -> Iterator[FieldFinding]:
    """The name of a public SSM parameter says for which processors its image is. EC2 does not launch an image
    for others. The architecture of an AMI id, and of a parameter of your own, is not known before a run."""
    for each in fleet.groups():
        has = image_architecture(each.group.image or "")
        wrong = [item for item in fleet.types(each.group) if has and has not in item.architectures]
        if wrong:
            yield FieldFinding(
                (*each.path, "image"),
                f"the image of {each.group.name} is for {has}, and {wrong[0].name} is"
                f" {'/'.join(wrong[0].architectures)}",
                f"name an image for {wrong[0].architectures[0]}, or leave `image` out",
            )


@check("image-driver")
def image_driver_fits(fleet: Fleet) -> Iterator[FieldFinding]:
    """EKS has an image with NVIDIA's driver, one with Neuron's, and one with neither. Devices without their
    driver are not seen by the device plugin."""
    for each in fleet.groups():
        variant, wanted = image_variant(each.group.image or ""), _wanted(fleet, each)
        if variant is not None and wanted is not None and variant != wanted:
            (item, *_) = fleet.types(each.group)
            yield FieldFinding(
                (*each.path, "image"),
                f"the image of {each.group.name} has {_DRIVERS[variant]}, and {item.name} has"
                f" {item.accelerator.name if item.accelerator else 'no accelerator'}",
                f"name the image of the variant {wanted!r}, or leave `image` out",
            )


@check("neuron-scheduler-architecture")
def neuron_scheduler_architecture(fleet: Fleet) -> Iterator[FieldFinding]:
    """Neuron's scheduler extension runs on the system nodes. Its image is known for x86_64 only."""
    for path, site in fleet.cloud():
        settings = site.kubernetes
        if settings is None or not settings.neuron_scheduler:
            continue
        groups = [
            each.group.name
            for each in fleet.groups()
            if each.site is site and any(item.neuron for item in fleet.types(each.group))
        ]
        types = settings.system_nodes.instance_types
        if groups and all(_is_arm(fleet, name) for name in types):
            yield FieldFinding(
                (*path, "kubernetes", "neuron_scheduler"),
                f"{listed(groups, 4)} has Neuron devices, and the system nodes of site {site.site!r} are Arm:"
                " the image of Neuron's scheduler extension is known for x86_64 only",
                "write 'neuron_scheduler: false', or system nodes such as m7i.xlarge",
                value=True,
            )


def _is_arm(fleet: Fleet, name: str) -> bool:
    known = fleet.catalog.instances.get(name)
    return known.arm64 if known is not None else _GRAVITON.match(name) is not None


def _title(arm: bool) -> str:
    return "arm64" if arm else "x86_64"


def _wanted(fleet: Fleet, each: LocatedGroup) -> str | None:
    """Return the variant of EKS's image that a group needs; None if its types are not known."""
    types = fleet.types(each.group)
    if not types or types[0].accelerator_unknown:
        return None
    return "neuron" if types[0].neuron else "nvidia" if types[0].gpu else "standard"


CHECKS = (
    architecture_unsupported,
    system_nodes_architecture,
    image_architecture_fits,
    image_driver_fits,
    neuron_scheduler_architecture,
)
