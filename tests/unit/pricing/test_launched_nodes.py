"""Nodes that Slurm launches: from none to the most that there may be."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import LAUNCHED_NODES
from tests.unit.pricing.stacks import CATALOG, DISK, MONTH, NODE, TYPE, amounts, cost, template
from tests.unit.pricing.test_reservations import BLOCK_HOUR, H100, block, in_reservation, offering

FOUND = CATALOG.spot(TYPE, "us-east-1")
assert FOUND is not None
SPOT = FOUND


def launched(**props: Any) -> dict[str, Any]:
    launch = {"launch_template_id": "lt-template", "instance_types": [TYPE], "most": 4}
    given = {**launch, "region": "us-east-1", **props}
    return {"type": LAUNCHED_NODES, "name": "group", "props": given}


@pytest.mark.parametrize(
    ("bought", "most"),
    [
        ({}, 4 * NODE),
        ({"spot": False}, 4 * NODE),
        ({"spot": True}, 4 * MONTH * SPOT.high),
        ({"spot": True, "max_price": str(SPOT.low)}, 4 * MONTH * SPOT.low),
    ],
)
def test_launched_nodes_cost_nothing_until_jobs_need_them(bought: dict[str, Any], most: Decimal) -> None:
    found = cost(template(), launched(**bought))
    assert amounts(found) == (0, 0, most)
    assert amounts(found, "storage") == (0, 0, 4 * DISK)
    assert {line.bought for line in found.lines} == {"spot" if bought.get("spot") else "on-demand", ""}


def test_launched_nodes_of_a_block_cost_only_their_volumes() -> None:
    launch = in_reservation(instanceType=H100, instanceMarketOptions={"marketType": "capacity-block"})
    nodes = launched(instance_types=[H100], launch_template_id=UNKNOWN, most=2)
    nodes["depends"] = {"launch_template_id": ["template"]}
    found = cost(offering(), block(), launch, nodes)
    assert amounts(found)[1] == 2 * 24 * BLOCK_HOUR
    assert [line.kind for line in found.lines if line.name == "group"] == ["storage"]
