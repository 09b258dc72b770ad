"""AWS's answers as catalog facts: one pure function per API.

Shapes are those of botocore's models of EC2 (2016-11-15) and of the Price List's product documents
(`FormatVersion` aws_v1).
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from gpufleet.catalog.accelerator import Accelerator
from gpufleet.catalog.models import InstanceType, NetworkCard, Price

ACCELERATOR_MAKERS = frozenset({"NVIDIA", "AWS"})
USAGE_CLASSES = frozenset({"on-demand", "spot", "capacity-block"})
INTERFACE_TYPES = frozenset({"interface", "efa", "efa-only"})
MIB_PER_GIB = 1024
MINUTES_PER_HOUR = 60


def has_accelerator(info: Mapping[str, Any]) -> bool:
    """Return whether an entry of DescribeInstanceTypes has a GPU of NVIDIA or an accelerator of AWS."""
    gpus = info.get("GpuInfo", {}).get("Gpus", [])
    return "NeuronInfo" in info or any(gpu.get("Manufacturer") in ACCELERATOR_MAKERS for gpu in gpus)


def instance_from_aws(info: Mapping[str, Any], *, source: str) -> InstanceType:
    """Return one entry of DescribeInstanceTypes; regions and prices come from other APIs."""
    network = info["NetworkInfo"]
    return InstanceType(
        name=info["InstanceType"],
        vcpus=info["VCpuInfo"]["DefaultVCpus"],
        memory_gib=info["MemoryInfo"]["SizeInMiB"] / MIB_PER_GIB,
        accelerator=_accelerator(info),
        cards=tuple(_card(card) for card in network.get("NetworkCards", [])),
        max_efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        max_enis=network["MaximumNetworkInterfaces"],
        network_performance=network.get("NetworkPerformance", ""),
        nvme=tuple(
            (disk["Count"], disk["SizeInGB"]) for disk in info.get("InstanceStorageInfo", {}).get("Disks", [])
        ),
        usage_classes=USAGE_CLASSES & set(info.get("SupportedUsageClasses", [])),
        architectures=tuple(info.get("ProcessorInfo", {}).get("SupportedArchitectures", [])),
        placement_strategies=frozenset(info.get("PlacementGroupInfo", {}).get("SupportedStrategies", [])),
        hardware_source=source,
    )


def _accelerator(info: Mapping[str, Any]) -> Accelerator | None:
    """Return the first of a type's GPUs or Neuron devices; no type has two kinds."""
    gpus = info.get("GpuInfo", {}).get("Gpus")
    for device in gpus or info.get("NeuronInfo", {}).get("NeuronDevices") or ():
        memory_mib = device.get("MemoryInfo", {}).get("SizeInMiB")
        return Accelerator(
            kind="gpu" if gpus else "neuron",
            name=device["Name"],
            count=device.get("Count", 0),
            memory_gib=None if memory_mib is None else round(memory_mib / MIB_PER_GIB, 2),
            partition=device.get("GpuPartitionSize") or 1.0,
            cores=device.get("CoreInfo", {}).get("Count"),
        )
    return None


def _card(card: Mapping[str, Any]) -> NetworkCard:
    return NetworkCard(
        index=card["NetworkCardIndex"],
        max_interfaces=card["MaximumNetworkInterfaces"],
        peak_gbps=card["PeakBandwidthInGbps"],
        supports=INTERFACE_TYPES & set(card.get("InterfaceTypes") or ["interface"]),
    )


def on_demand_prices(
    documents: Iterable[str], wanted: frozenset[str], *, source: str, date: dt.date
) -> dict[str, Price]:
    """Return the Linux on-demand price of each wanted type from the Price List's products of one region.

    A product without a positive hourly price in USD is omitted: it is unknown, not free.
    """
    found: dict[str, Price] = {}
    for text in documents:
        document = json.loads(text)
        attributes = document.get("product", {}).get("attributes", {})
        name = attributes.get("instanceType")
        if name not in wanted or not _is_plain_linux(attributes):
            continue
        for amount in _hourly_usd(document):
            found[name] = Price(amount=amount, unit="instance-hour", source=source, date=date)
    return found


def _is_plain_linux(attributes: Mapping[str, str]) -> bool:
    return (
        attributes.get("operatingSystem") == "Linux"
        and attributes.get("tenancy") == "Shared"
        and attributes.get("preInstalledSw") == "NA"
        and attributes.get("capacitystatus") == "Used"
        and attributes.get("operation") == "RunInstances"
        and attributes.get("marketoption", "OnDemand") == "OnDemand"
    )


def _hourly_usd(document: Mapping[str, Any]) -> Iterator[Decimal]:
    for term in document.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            amount = Decimal(dimension.get("pricePerUnit", {}).get("USD", "0"))
            if dimension.get("unit") == "Hrs" and amount > 0:
                yield amount


def spot_by_zone_id(
    records: Iterable[Mapping[str, Any]], zone_ids: Mapping[str, str]
) -> dict[str, dict[str, Decimal]]:
    """Return the newest spot price of each type and zone, from DescribeSpotPriceHistory.

    `zone_ids` maps the account's zone names to ids; records of other zones (local ones) are omitted.
    """
    newest: dict[tuple[str, str], tuple[dt.datetime, Decimal]] = {}
    for record in records:
        zone = record.get("AvailabilityZoneId") or zone_ids.get(record["AvailabilityZone"])
        if zone is None:
            continue
        key = (record["InstanceType"], zone)
        read = (record["Timestamp"], Decimal(record["SpotPrice"]))
        if key not in newest or newest[key][0] < read[0]:
            newest[key] = read
    prices: dict[str, dict[str, Decimal]] = defaultdict(dict)
    for (name, zone), (_, price) in newest.items():
        prices[name][zone] = price
    return dict(prices)


def capacity_block_price(
    offerings: Iterable[Mapping[str, Any]], *, source: str, date: dt.date
) -> Price | None:
    """Return the lowest price per instance-hour of Capacity Block offerings; None without one in USD.

    The duration is `CapacityBlockDurationHours` and, in addition, `CapacityBlockDurationMinutes`: blocks end
    at 11:30 UTC, so one that starts at 04:55 lasts 6 h 35 min. An offering without a duration has no price.
    """
    amounts = [
        Decimal(offering["UpfrontFee"]) * MINUTES_PER_HOUR / (offering["InstanceCount"] * minutes)
        for offering in offerings
        if (minutes := _minutes(offering)) > 0
        and offering.get("CurrencyCode", "USD") == "USD"
        and Decimal(offering["UpfrontFee"]) > 0
    ]
    if not amounts:
        return None
    lowest = min(amounts).quantize(Decimal("0.0001"))
    return Price(amount=lowest, unit="instance-hour", source=source, date=date)


def _minutes(offering: Mapping[str, Any]) -> int:
    hours: int = offering.get("CapacityBlockDurationHours", 0)
    minutes: int = offering.get("CapacityBlockDurationMinutes", 0)
    return hours * MINUTES_PER_HOUR + minutes
