"""Instance types: known, offered in the region, and interchangeable within a node group."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.catalog.accelerator import Accelerator
from gpufleet.checks.rules import FieldFinding, Fleet, check, did_you_mean, listed


@check("instance-type-known")
def instance_type_known(fleet: Fleet) -> Iterator[FieldFinding]:
    """Interfaces, GPUs and prices come from the catalog, so a type that is not in it cannot be planned. For
    system nodes this is a warning: they are only not priced."""
    for each in fleet.groups():
        for index, name in enumerate(each.group.instance_types):
            if name not in fleet.catalog.instances:
                yield FieldFinding(
                    (*each.path, "instance_types", index),
                    f"instance type {name!r} is not in the catalog",
                    did_you_mean(
                        fleet.catalog.suggest_instance(name),
                        "see `gpufleet catalog`; `gpufleet catalog refresh` reads new types from AWS",
                    ),
                )
    for path, site in fleet.cloud():
        for index, name in enumerate(site.kubernetes.system_nodes.instance_types if site.kubernetes else ()):
            if name not in fleet.catalog.instances:
                yield FieldFinding(
                    (*path, "kubernetes", "system_nodes", "instance_types", index),
                    f"instance type {name!r} is not in the catalog: it is not checked and not priced",
                    did_you_mean(fleet.catalog.suggest_instance(name), "see `gpufleet catalog`"),
                    "warning",
                )


@check("instance-type-in-region")
def instance_type_in_region(fleet: Fleet) -> Iterator[FieldFinding]:
    """A type cannot launch in a region that does not offer it. If the catalog has no offerings of the region
    or type, this is a warning."""
    read = {region for instance in fleet.catalog.instances.values() for region in instance.regions}
    for each in fleet.groups():
        region = each.site.region
        if region not in fleet.catalog.regions:
            continue
        for index, name in enumerate(each.group.instance_types):
            instance = fleet.catalog.instances.get(name)
            if instance is None or region in instance.regions:
                continue
            where = (*each.path, "instance_types", index)
            if not instance.regions or region not in read:
                yield FieldFinding(
                    where,
                    f"the catalog does not record whether {region} offers {name}",
                    "run `aws ec2 describe-instance-type-offerings` or `gpufleet catalog refresh`",
                    "warning",
                )
                continue
            yield FieldFinding(
                where,
                f"{name} is not offered in {region}",
                f"it is offered in {listed(sorted(instance.regions), 12)};"
                " `gpufleet catalog refresh` reads the current offerings",
            )


@check("instance-type-repeated")
def instance_type_repeated(fleet: Fleet) -> Iterator[FieldFinding]:
    """The list of types is an order of preference without duplicates."""
    for each in fleet.groups():
        types = each.group.instance_types
        for index, name in enumerate(types):
            if name in types[:index]:
                yield FieldFinding(
                    (*each.path, "instance_types", index), f"{name} is listed twice", "list it once"
                )


@check("instance-types-alike")
def instance_types_alike(fleet: Fleet) -> Iterator[FieldFinding]:
    """The types of a group share one launch template, one image and one scheduler entry. They need the same
    accelerator, as many of them, and the same architecture."""
    for each in fleet.groups():
        types = fleet.types(each.group)
        if len(types) < 2:
            continue
        first = types[0]
        for other in types[1:]:
            where = (*each.path, "instance_types", each.group.instance_types.index(other.name))
            remedy = f"move {other.name} to a separate node group"
            mine, theirs = first.accelerator, other.accelerator
            if _name(theirs) != _name(mine):
                yield FieldFinding(
                    where,
                    f"{other.name} has {_name(theirs)} and {first.name} has {_name(mine)}:"
                    " a node group has one kind of accelerator",
                    remedy,
                )
            elif mine is not None and theirs is not None and mine.devices != theirs.devices:
                yield FieldFinding(
                    where,
                    f"{other.name} has {_devices(theirs)} and {first.name} has {_devices(mine)}: all nodes of"
                    f" a group need the same number of {'GPUs' if mine.kind == 'gpu' else 'devices'}",
                    remedy,
                )
            if not set(other.architectures) & set(first.architectures):
                yield FieldFinding(
                    where,
                    f"{other.name} is {'/'.join(other.architectures)} and {first.name} is"
                    f" {'/'.join(first.architectures)}: no image runs on both",
                    remedy,
                )


def _name(accelerator: Accelerator | None) -> str:
    return accelerator.name if accelerator is not None else "no accelerator"


def _devices(found: Accelerator) -> str:
    what = "GPU" if found.kind == "gpu" else "Neuron device"
    if not found.count:
        return f"{found.partition:g} of a {what}"
    return f"{found.count} {what}{'s' if found.count != 1 else ''}"


@check("accelerator-unknown")
def accelerator_unknown(fleet: Fleet) -> Iterator[FieldFinding]:
    """The accelerator of some types is not published. The plan counts none for them, and their nodes get no
    accelerator label or taint."""
    for each in fleet.groups():
        for item in fleet.types(each.group):
            if item.accelerator_unknown:
                yield FieldFinding(
                    (*each.path, "instance_types", each.group.instance_types.index(item.name)),
                    f"the catalog has no accelerator for {item.name}: it is not counted",
                    "run `gpufleet catalog refresh` with AWS credentials, and write the taint under `taints`",
                    "warning",
                )


@check("accelerator-unsupported")
def accelerator_unsupported(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS's Deep Learning images with the Neuron driver, from which Slurm nodes start, leave Inf1 out since
    Neuron SDK 2.26.1 (Neuron DLAMI user guide). EKS's image installs an older driver there."""
    for each in fleet.groups():
        for item in fleet.types(each.group):
            if item.accelerator is None or item.accelerator.name != "Inferentia":
                continue
            if each.site.scheduler == "slurm" and each.group.image is None:
                yield FieldFinding(
                    (*each.path, "instance_types", each.group.instance_types.index(item.name)),
                    f"{item.name} has {item.accelerator.name}, which the image of Slurm nodes does not drive",
                    "use Inf2 or Trainium, a site with 'scheduler: kubernetes', or an `image` of your own",
                )


@check("gpu-stack-unused")
def gpu_stack_unused(fleet: Fleet) -> Iterator[FieldFinding]:
    """NVIDIA's GPU Operator does nothing for Neuron devices: their device plugin is Neuron's."""
    for path, site in fleet.cloud():
        if site.kubernetes is None or site.kubernetes.gpu_stack != "gpu-operator":
            continue
        types = [item for each in fleet.groups() if each.site is site for item in fleet.types(each.group)]
        if any(item.neuron for item in types) and not any(item.gpu for item in types):
            yield FieldFinding(
                (*path, "kubernetes", "gpu_stack"),
                f"site {site.site!r} has Neuron devices and no GPU: NVIDIA's GPU Operator has nothing to do",
                "leave `gpu_stack` out",
                "warning",
            )


@check("public-ip-multi-card")
def public_ip_multi_card(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS assigns no public address at launch to an instance with several network interfaces (EC2 User Guide,
    "Multiple network interfaces")."""
    for each in fleet.groups():
        if not each.group.public_ip:
            continue
        where = (*each.path, "public_ip")
        wide = [instance.name for instance in fleet.types(each.group) if instance.multi_card]
        if wide:
            yield FieldFinding(
                where,
                f"{listed(wide)} has several network cards: AWS assigns such instances no public address",
                "write 'public_ip: false' and reach the nodes through the site's network",
            )
        elif each.group.network == "efa":
            yield FieldFinding(
                where,
                f"{each.name} has EFA and several interfaces: AWS assigns such instances no public address",
                "write 'public_ip: false', or 'network: ena'",
            )


@check("volume-performance")
def volume_performance(fleet: Fleet) -> Iterator[FieldFinding]:
    """A gp3 volume has at most 500 IOPS per GiB and 0.25 MB/s per IOPS (EBS User Guide, "General Purpose SSD
    volumes")."""
    for each in fleet.groups():
        volume = each.group.volume
        size = int(volume.size.gib)
        if volume.iops > 500 * size:
            yield FieldFinding(
                (*each.path, "volume", "iops"),
                f"{volume.iops} IOPS are more than the {500 * size} that a gp3 volume of {size} GiB has",
                f"use {500 * size} IOPS or less, or a volume of {-(-volume.iops // 500)} GiB",
            )
        if volume.throughput * 4 > volume.iops:
            yield FieldFinding(
                (*each.path, "volume", "throughput"),
                f"{volume.throughput} MB/s need {volume.throughput * 4} IOPS, and the volume has"
                f" {volume.iops}",
                f"write 'iops: {volume.throughput * 4}', or a throughput of {volume.iops // 4}",
            )


CHECKS = (
    instance_type_known,
    instance_type_in_region,
    instance_type_repeated,
    instance_types_alike,
    accelerator_unknown,
    accelerator_unsupported,
    gpu_stack_unused,
    public_ip_multi_card,
    volume_performance,
)
