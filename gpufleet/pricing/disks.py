"""What EBS volumes cost: by kind, size and speed, stand-alone or made with each node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.plan.cost.ledger import MONTH, Rate, number, settle
from gpufleet.plan.cost.volumes import INCLUDED_IOPS, INCLUDED_MB_S, gp3_parts
from gpufleet.pricing.context import ONE, Cost, Pricing, Sizes
from gpufleet.pricing.inputs import UnpricedError, declared, whole
from gpufleet.resources.resource import UNKNOWN, Resource

ROOT_DEVICES = frozenset({"/dev/xvda", "/dev/sda1"})
"""What AWS's images call the volume that they start from."""

_IMAGE = "the image's own volume is kept, and its size is not declared"


@dataclass(frozen=True, slots=True)
class Disk:
    """A volume: kind as EBS names it, GiB, IOPS, MB/s."""

    kind: str
    size: int
    iops: int | None
    throughput: int | None


def read_disk(
    values: Mapping[str, Any], path: str, *, size: str = "volumeSize", kind: str = "volumeType"
) -> Disk:
    """The volume that a block device declares. Or `UnpricedError`, also where a snapshot sets the size."""
    name = values.get(kind)
    if name is UNKNOWN:
        raise UnpricedError(f"{path}.{kind} is not known yet")
    if values.get(size) is None:
        raise UnpricedError(f"{path}.{size} is not set: a snapshot or an image decides")
    fast = {
        each: None if values.get(each) is None else whole(values[each], f"{path}.{each}")
        for each in ("iops", "throughput")
    }
    return Disk(
        str(name or "gp2"), whole(values[size], f"{path}.{size}", least=1), fast["iops"], fast["throughput"]
    )


def template_disks(template: Resource) -> list[Disk]:
    """The volumes of each node that a launch template makes. Or `UnpricedError`."""
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
    """The volumes that an instance declares itself. Or `UnpricedError`."""
    first = values.get(root)
    if isinstance(first, Sequence) and not isinstance(first, str):
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


def price_disks(
    pricing: Pricing, region: str, disks: Iterable[Disk], sizes: Sizes = ONE, hours: Decimal = MONTH
) -> tuple[str, Cost]:
    """What so many sets of volumes are, and what they cost when they exist for `hours` a month."""
    one = Decimal(0)
    basis: list[str] = []
    rates: list[Rate] = []
    names: list[str] = []
    for disk in disks:
        names.append(f"{disk.kind} {disk.size} GiB")
        for key, amount, unit in _parts(disk):
            rate = pricing.service_rate(key, region)
            one += amount * rate.expected
            basis.append(f"{amount} {unit} x {number(rate.expected)} USD")
            rates.append(rate)
    each = one if hours == MONTH else settle(one * hours / MONTH)
    return (
        f"{sizes.expected} root volumes, {' and '.join(names)}",
        Cost(
            sizes.minimum * each,
            sizes.expected * each,
            sizes.maximum * each,
            f"{sizes.expected} x ({' + '.join(basis)}); {sizes.minimum} to {sizes.maximum}"
            + ("" if hours == MONTH else f"; {number(hours)} of 730 h"),
            tuple(rates),
        ),
    )


def price_volume(pricing: Pricing, resource: Resource) -> None:
    """A stand-alone EBS volume."""
    values = {each: declared(resource, each) for each in ("size", "type", "iops", "throughput")}
    disk = read_disk(values, "the volume", size="size", kind="type")
    _, cost = price_disks(pricing, pricing.region(resource), [disk])
    what = f"EBS volume, {disk.kind} {disk.size} GiB"
    pricing.add(resource, what, "storage", cost, pricing.owners.of(resource))


def _parts(disk: Disk) -> list[tuple[str, int, str]]:
    if disk.kind == "gp3":
        return gp3_parts(disk.size, disk.iops or INCLUDED_IOPS, disk.throughput or INCLUDED_MB_S)
    if disk.kind == "io2":
        if not disk.iops:
            raise UnpricedError("the IOPS of an io2 volume are not set")
        return [("ebs-io2", disk.size, "GB-month"), ("ebs-io2-iops", disk.iops, "IOPS-month")]
    raise UnpricedError(f"no price of EBS {disk.kind} volumes was read")
