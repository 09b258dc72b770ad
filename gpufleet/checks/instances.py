"""Instance types: known, offered in the region, and interchangeable within a node group."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check, did_you_mean, listed
from gpufleet.plan.marks import NEURON


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
                    f"the catalog does not know whether {region} offers {name}",
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
    GPU model, GPU count and architecture."""
    for each in fleet.groups():
        types = fleet.types(each.group)
        if len(types) < 2:
            continue
        first = types[0]
        for other in types[1:]:
            where = (*each.path, "instance_types", each.group.instance_types.index(other.name))
            remedy = f"move {other.name} to a separate node group"
            if other.gpu != first.gpu:
                yield FieldFinding(
                    where,
                    f"{other.name} has {other.gpu or 'no GPU'} and {first.name} has {first.gpu or 'no GPU'}:"
                    " a node group has one kind of GPU",
                    remedy,
                )
            elif (other.gpu_count, other.gpu_partition) != (first.gpu_count, first.gpu_partition):
                yield FieldFinding(
                    where,
                    f"{other.name} has {_gpus(other.gpu_count, other.gpu_partition)} and {first.name} has"
                    f" {_gpus(first.gpu_count, first.gpu_partition)}: all nodes of a group"
                    " need the same number of GPUs",
                    remedy,
                )
            if not set(other.architectures) & set(first.architectures):
                yield FieldFinding(
                    where,
                    f"{other.name} is {'/'.join(other.architectures)} and {first.name} is"
                    f" {'/'.join(first.architectures)}: no image runs on both",
                    remedy,
                )


def _gpus(count: int, partition: float) -> str:
    return f"{count} GPU{'s' if count != 1 else ''}" if count else f"{partition:g} of a GPU"


@check("accelerator-unknown")
def accelerator_unknown(fleet: Fleet) -> Iterator[FieldFinding]:
    """The accelerator of some types is not published. The plan counts no GPUs for them, and their nodes get
    no accelerator label or taint."""
    for each in fleet.groups():
        for item in fleet.types(each.group):
            if "gpu" in item.unverified:
                yield FieldFinding(
                    (*each.path, "instance_types", each.group.instance_types.index(item.name)),
                    f"the catalog has no accelerator for {item.name}: its GPUs are not counted",
                    "run `gpufleet catalog refresh` with AWS credentials, and write the taint under `taints`",
                    "warning",
                )


@check("accelerator-unsupported")
def accelerator_unsupported(fleet: Fleet) -> Iterator[FieldFinding]:
    """gpufleet installs only NVIDIA drivers, images and device plugins. AWS accelerators need the Neuron
    SDK."""
    for each in fleet.groups():
        for item in fleet.types(each.group):
            if item.gpu in NEURON:
                yield FieldFinding(
                    (*each.path, "instance_types", each.group.instance_types.index(item.name)),
                    f"{item.name} has {item.gpu}, but gpufleet supports only NVIDIA GPUs",
                    "use a type with NVIDIA GPUs; `gpufleet catalog` lists them",
                )


@check("architecture-unsupported")
def architecture_unsupported(fleet: Fleet) -> Iterator[FieldFinding]:
    """All images that gpufleet launches are for x86_64. An Arm instance cannot boot them."""
    written = [
        ((*each.path, "instance_types", index), name)
        for each in fleet.groups()
        for index, name in enumerate(each.group.instance_types)
    ]
    written += [
        ((*path, "kubernetes", "system_nodes", "instance_types", index), name)
        for path, site in fleet.cloud()
        if site.kubernetes is not None
        for index, name in enumerate(site.kubernetes.system_nodes.instance_types)
    ]
    for where, name in written:
        known = fleet.catalog.instances.get(name)
        if known is not None and "x86_64" not in known.architectures:
            yield FieldFinding(
                where,
                f"{name} is {'/'.join(known.architectures)}, but the node images are for x86_64",
                "use a type with Intel or AMD processors",
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
    architecture_unsupported,
    public_ip_multi_card,
    volume_performance,
)
