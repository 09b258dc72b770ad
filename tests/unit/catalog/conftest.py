"""Answers of AWS for the tests of `catalog refresh`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import moto.ec2
import pytest


@pytest.fixture(scope="session")
def dump() -> dict[str, Any]:
    """The stored DescribeInstanceTypes answers that the hardware facts were read from."""
    path = Path(moto.ec2.__file__).parent / "resources" / "instance_types.json.gz"
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def price_document(name: str, usd: str, region: str = "us-east-1", **changes: str) -> str:
    """A product of the Price List, in the shape of format version aws_v1."""
    attributes = {
        "instanceType": name,
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "operation": "RunInstances",
        "marketoption": "OnDemand",
        "licenseModel": "No License required",
    }
    dimension = {
        "unit": "Hrs",
        "rateCode": "SKU.JRTCKXETXF.6YS6EN2CT7",
        "beginRange": "0",
        "endRange": "Inf",
        "pricePerUnit": {"USD": usd},
        "description": f"${usd} per On Demand Linux {name} Instance Hour",
    }
    return json.dumps(
        {
            "product": {
                "productFamily": "Compute Instance",
                "attributes": attributes | changes,
                "sku": "SKU",
            },
            "serviceCode": "AmazonEC2",
            "terms": {
                "OnDemand": {"SKU.JRTCKXETXF": {"priceDimensions": {"SKU.JRTCKXETXF.6YS6EN2CT7": dimension}}}
            },
            "version": "20261120000000",
            "publicationDate": "2026-11-20T00:00:00Z",
        }
    )


def usage_document(
    service: str, usage: str, usd: str, unit: str = "Hrs", *, tiers: tuple[tuple[str, str], ...] = ()
) -> str:
    """A product with a usage type; `tiers` are further prices from an amount of use on."""
    dimensions = {
        f"SKU.JRTCKXETXF.{start}": {
            "unit": unit,
            "beginRange": start,
            "endRange": "Inf",
            "pricePerUnit": {"USD": price},
        }
        for start, price in (("0", usd), *tiers)
    }
    return json.dumps(
        {
            "product": {"attributes": {"usagetype": usage}, "sku": "SKU"},
            "serviceCode": service,
            "terms": {"OnDemand": {"SKU.JRTCKXETXF": {"priceDimensions": dimensions}}},
        }
    )
