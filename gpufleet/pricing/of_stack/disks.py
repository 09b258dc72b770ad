"""The EBS volumes that resources declare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.pricing.disks import Disk, price_volume
from gpufleet.pricing.of_stack.context import Pricing
from gpufleet.pricing.of_stack.inputs import declared, whole
from gpufleet.pricing.rates import UnpricedError
from gpufleet.resources.resource import UNKNOWN, Resource

ROOT_DEVICES = frozenset({"/dev/xvda", "/dev/sda1"})
"""The root device names of AWS images."""

_IMAGE = "the volume of the image is used, and its size is not declared"


def read_disk(
    values: Mapping[str, Any], path: str, *, size: str = "volumeSize", kind: str = "volumeType"
) -> Disk:
    """Return the volume of a block device. Raises `UnpricedError`, also if a snapshot sets the size."""
    name = values.get(kind)
    if name is UNKNOWN:
        raise UnpricedError(f"{path}.{kind} is not known yet")
    if values.get(size) is None:
        raise UnpricedError(f"{path}.{size} is not set: the snapshot or image sets it")
    fast = {
        each: None if values.get(each) is None else whole(values[each], f"{path}.{each}")
        for each in ("iops", "throughput")
    }
    return Disk(
        str(name or "gp2"), whole(values[size], f"{path}.{size}", least=1), fast["iops"], fast["throughput"]
    )


def template_disks(template: Resource) -> list[Disk]:
    """Return the volumes per node of a launch template. Raises `UnpricedError`."""
    path = "blockDeviceMappings"
    mappings = declared(template, path)
    if mappings is UNKNOWN:
        raise UnpricedError(f"{path} is not known yet")
    found: list[Disk] = []
    rooted = False
    for mapping in mappings or ():
        ebs = mapping.get("ebs") if isinstance(mapping, Mapping) else UNKNOWN
        if ebs is UNKNOWN:
            raise UnpricedError(f"{path} is not known yet")
        if isinstance(ebs, Mapping):
            found.append(read_disk(ebs, f"{path}.ebs"))
            rooted = rooted or mapping.get("deviceName") in ROOT_DEVICES
    if not rooted:
        raise UnpricedError(
            f"no entry of {path} is the root volume ({', '.join(sorted(ROOT_DEVICES))}): {_IMAGE}"
        )
    return found


def instance_disks(values: Mapping[str, Any], *, root: str = "rootBlockDevice") -> list[Disk]:
    """Return the volumes that an instance declares. Raises `UnpricedError`."""
    first = values.get(root)
    if isinstance(first, list | tuple):
        first = first[0] if first else None
    if first is UNKNOWN or values.get("ebsBlockDevices") is UNKNOWN:
        raise UnpricedError("its block devices are not known yet")
    if not isinstance(first, Mapping):
        raise UnpricedError(_IMAGE)
    found = [read_disk(first, root)]
    for each in values.get("ebsBlockDevices") or ():
        if not isinstance(each, Mapping):
            raise UnpricedError("ebsBlockDevices is not known yet")
        found.append(read_disk(each, "ebsBlockDevices"))
    return found


def price_stand_alone(pricing: Pricing, resource: Resource) -> None:
    """Price a standalone EBS volume."""
    values = {each: declared(resource, each) for each in ("size", "type", "iops", "throughput")}
    disk = read_disk(values, "the volume", size="size", kind="type")
    prices = pricing.prices(resource)
    pricing.price(resource, lambda: price_volume(prices, disk), pricing.owners.of(resource))
