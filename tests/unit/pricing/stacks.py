"""Resources for pricing tests: a launch template, groups that use it, and catalog prices."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from gpufleet.catalog import load_catalog
from gpufleet.policy import examples
from gpufleet.pricing import FleetCost, price_stack
from gpufleet.pricing.assume import assume
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
)

CATALOG = load_catalog()
MONTH = Decimal(730)
TYPE = "g6e.xlarge"
HOUR = CATALOG.on_demand(TYPE, "us-east-1").amount or Decimal(0)
NODE = HOUR * MONTH
DISK = Decimal(16)
"""Catalog price of a node of `TYPE` per month, and of its root volume of 200 GiB gp3."""

MAPPING = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": 200, "volumeType": "gp3"}}


def template(name: str = "template", **props: Any) -> dict[str, Any]:
    """A launch template of `TYPE` with a root volume, with properties changed; None removes one."""
    given = {"id": f"lt-{name}", "instanceType": TYPE, "blockDeviceMappings": [MAPPING], **props}
    return {"type": LAUNCH_TEMPLATE, "name": name, "props": _without_none(given)}


def scaling_group(
    *, options: Mapping[str, Any] | None = None, uses: str = "template", **props: Any
) -> dict[str, Any]:
    """An Auto Scaling group of one to four nodes that refers to the template as a preview shows it."""
    given = {
        "minSize": 1,
        "maxSize": 4,
        "desiredCapacity": 2,
        "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN},
        **props,
    }
    return {
        "type": AUTO_SCALING_GROUP,
        "name": "group",
        "props": _without_none(given),
        "options": options or {},
        "depends": {"launchTemplate": [uses], "mixedInstancesPolicy": [uses]},
    }


def node_group(*, options: Mapping[str, Any] | None = None, **props: Any) -> dict[str, Any]:
    """An EKS node group of one to four nodes that refers to the template as a preview shows it."""
    given = {
        "scalingConfig": {"minSize": 1, "desiredSize": 2, "maxSize": 4},
        "capacityType": "ON_DEMAND",
        "instanceTypes": [TYPE],
        "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN},
        **props,
    }
    return {
        "type": NODE_GROUP,
        "name": "group",
        "props": _without_none(given),
        "options": options or {},
        "depends": {"launchTemplate": ["template"]},
    }


def mixed(*types: Any, base: int | None = None, percent: int | None = None, **more: Any) -> dict[str, Any]:
    """A mixed instances policy over the template."""
    distribution = {"onDemandBaseCapacity": base, "onDemandPercentageAboveBaseCapacity": percent}
    return {
        "launchTemplate": {
            "launchTemplateSpecification": {"launchTemplateId": UNKNOWN, "version": UNKNOWN},
            "overrides": [each if isinstance(each, dict) else {"instanceType": each} for each in types],
        },
        "instancesDistribution": {**_without_none(distribution), **more},
    }


def cost(
    *described: Mapping[str, Any], assumptions: Mapping[str, Decimal] | None = None, **more: Any
) -> FleetCost:
    """Cost of described resources with these assumptions; `more` goes to `price_stack`."""
    found = price_stack(examples.stack(described), CATALOG, **more)
    return replace(found, lines=assume(found.lines, assumptions or {}))


def amounts(found: FleetCost, kind: str = "compute") -> tuple[Decimal, Decimal, Decimal]:
    """The least, expected and largest cost of the lines of a kind, which have to be known."""
    lines = [line for line in found.lines if line.kind == kind]
    assert lines
    assert all(line.known for line in lines), [line.reason for line in lines]
    return (
        sum((line.minimum or Decimal(0) for line in lines), Decimal(0)),
        sum((line.expected or Decimal(0) for line in lines), Decimal(0)),
        sum((line.maximum or Decimal(0) for line in lines), Decimal(0)),
    )


def why_unknown(found: FleetCost) -> str:
    """The reason of the one line without a price."""
    (line,) = found.unknown
    assert (line.minimum, line.expected, line.maximum) == (None, None, None)
    return line.reason


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
