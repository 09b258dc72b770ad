"""Prices of services from AWS's price list: by the usage type of the bill.

A usage type begins with a code of the region (`EUC1-NatGateway-Hours`), except in us-east-1. The names are
those of the price lists of 2026 (AmazonEC2, AmazonVPC, AmazonRoute53, AmazonEKS, AmazonFSx).
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct

from gpufleet.catalog.models import Price, PriceUnit

REQUESTS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("AmazonEC2", {"productFamily": "NAT Gateway"}),
    ("AmazonEC2", {"productFamily": "Storage"}),
    ("AmazonEC2", {"productFamily": "System Operation"}),
    ("AmazonEC2", {"productFamily": "Provisioned Throughput"}),
    ("AmazonVPC", {}),
    ("AmazonRoute53", {"productFamily": "DNS Query"}),
    ("AmazonEKS", {}),
    ("AmazonFSx", {"operation": "CreateFileSystem:Lustre"}),
)
"""Service codes of the price list, and filters that keep an answer small."""


class Usage(Struct, frozen=True):
    """A usage type of a service without the code of the region, and its unit in the catalog."""

    service: str
    name: str
    unit: PriceUnit


_LUSTRE = {
    "SCRATCH_2": "Storage",
    **{f"PERSISTENT_1-{speed}": f"Storage.SSD.{speed}" for speed in (50, 100, 200)},
    **{f"PERSISTENT_2-{speed}": f"Storage.SSD.{speed}" for speed in (125, 250, 500, 1000)},
}
_EXTENDED = "eks-control-plane-extended"
USAGES: Mapping[str, Usage] = {
    "nat-gateway-hour": Usage("AmazonEC2", "NatGateway-Hours", "hour"),
    "nat-gateway-gb": Usage("AmazonEC2", "NatGateway-Bytes", "GB"),
    "ebs-gp3": Usage("AmazonEC2", "EBS:VolumeUsage.gp3", "GB-month"),
    "ebs-gp3-iops": Usage("AmazonEC2", "EBS:VolumeP-IOPS.gp3", "IOPS-month"),
    "ebs-gp3-throughput": Usage("AmazonEC2", "EBS:VolumeP-Throughput.gp3", "MBps-month"),
    "ebs-io2": Usage("AmazonEC2", "EBS:VolumeUsage.io2", "GB-month"),
    "ebs-io2-iops": Usage("AmazonEC2", "EBS:VolumeP-IOPS.io2", "IOPS-month"),
    "ebs-io2-iops-tier2": Usage("AmazonEC2", "EBS:VolumeP-IOPS.io2.tier2", "IOPS-month"),
    "ebs-io2-iops-tier3": Usage("AmazonEC2", "EBS:VolumeP-IOPS.io2.tier3", "IOPS-month"),
    "vpc-endpoint-interface-hour": Usage("AmazonVPC", "VpcEndpoint-Hours", "hour"),
    "public-ipv4-hour": Usage("AmazonVPC", "PublicIPv4:InUseAddress", "hour"),
    "vpn-connection-hour": Usage("AmazonVPC", "VPN-Usage-Hours:ipsec.1", "hour"),
    "resolver-endpoint-hour": Usage("AmazonRoute53", "ResolverNetworkInterface", "hour"),
    "eks-control-plane": Usage("AmazonEKS", "AmazonEKS-Hours:perCluster", "hour"),
    _EXTENDED: Usage("AmazonEKS", "AmazonEKS-Hours:extendedSupport", "hour"),
    "fsx-lustre-metadata-iops": Usage("AmazonFSx", "MetadataIOPS", "IOPS-month"),
    **{f"fsx-lustre-{tier}": Usage("AmazonFSx", name, "GB-month") for tier, name in _LUSTRE.items()},
}
"""Usage by the key of the price table."""

_KEYS = {(usage.service, usage.name): key for key, usage in USAGES.items()}
_REGION_CODE = re.compile(r"^[A-Z]{2,4}\d?-(?=[A-Z])")
_DIVISORS = {"GiBps-mo": 1024}


def usage_prices(documents: Iterable[str], *, source: str, date: dt.date) -> dict[str, Price]:
    """Return prices by key from the products of one region. Products without a price in USD are omitted.

    The price list has extended support of EKS as a surcharge; here it is the sum.
    """
    found: dict[str, Price] = {}
    for text in documents:
        document = json.loads(text)
        attributes = document.get("product", {}).get("attributes", {})
        key = _key(str(document.get("serviceCode")), str(attributes.get("usagetype", "")))
        if key is None:
            continue
        for amount in _first_tier(document):
            found[key] = Price(amount=amount, unit=USAGES[key].unit, source=source, date=date)
    standard, extended = found.get("eks-control-plane"), found.pop(_EXTENDED, None)
    if standard is not None and extended is not None and standard.amount and extended.amount:
        total = standard.amount + extended.amount
        found[_EXTENDED] = extended.model_copy(update={"amount": total})
    return found


def _key(service: str, usage_type: str) -> str | None:
    """Return the key of a usage type. The whole name is first: `VPN-` of us-east-1 looks like a region."""
    return _KEYS.get((service, usage_type)) or _KEYS.get((service, _REGION_CODE.sub("", usage_type)))


def _first_tier(document: Mapping[str, Any]) -> Iterator[Decimal]:
    for term in document.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            amount = Decimal(dimension.get("pricePerUnit", {}).get("USD", "0"))
            if amount > 0 and dimension.get("beginRange", "0") == "0":
                yield (amount / _DIVISORS.get(dimension.get("unit"), 1)).normalize()
