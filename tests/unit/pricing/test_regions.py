"""Fleets in every region that offers their types: all costs are known or estimated."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpufleet.catalog import load_catalog
from gpufleet.plan import build_plan
from gpufleet.pricing import FleetCost, price_plan
from gpufleet.pricing.estimates import MARGIN, SPREAD
from gpufleet.spec.models import FleetSpec
from tests.documents.blocks import blocks_of
from tests.documents.examples import README
from tests.unit.plan.fleets import cloud_site, group, on_demand, spec, spot

CATALOG = load_catalog()
SOLD = sorted(
    {region for name, item in CATALOG.instances.items() if name.startswith("p5") for region in item.regions}
)
assert {"us-west-2", "us-east-2", "eu-north-1", "ap-northeast-1", "sa-east-1"} < set(SOLD)
GPU_TYPES = sorted(
    name for name, item in CATALOG.instances.items() if item.gpu and "cards" not in item.unverified
)


def cost_in(region: str, fleet: FleetSpec) -> FleetCost:
    return price_plan(build_plan(fleet, CATALOG), CATALOG)


@pytest.mark.parametrize("region", SOLD)
def test_fleet_of_the_readme_has_no_unknown_price(region: str) -> None:
    (block,) = [each for each in blocks_of(README) if each.language == "yaml" and "cloud:" in each.lines]
    example: dict[str, Any] = yaml.safe_load("\n".join(block.lines))
    (site,) = example["cloud"]
    zones = list(CATALOG.zones(region)[:2])
    fleet = spec(cloud=[{**site, "region": region, "zones": zones, "provider": "aws"}])
    cost = cost_in(region, fleet)
    assert cost.unknown == ()
    assert {line.kind for line in cost.lines} >= {"compute", "storage", "network", "control-plane"}
    for line in cost.estimated:
        assert line.expected is not None and line.minimum is not None
        assert line.minimum <= line.expected <= line.minimum * max(MARGIN, SPREAD) * 2
        assert "is known" in line.note or "weak source" in line.note


@pytest.mark.parametrize("name", GPU_TYPES)
def test_every_gpu_type_is_priced_wherever_it_is_offered(name: str) -> None:
    item = CATALOG.instance(name)
    for region in sorted(item.regions):
        zones = [CATALOG.zones(region)[0]]
        kinds = {"on-demand": on_demand(1, 2), "spot": spot(1, 2)}
        for usage, capacity in kinds.items():
            if usage not in item.usage_classes or not item.on_demand:
                continue
            site = cloud_site(group("a", name, capacity), region=region, zones=zones)
            cost = cost_in(region, spec(cloud=[site]))
            assert cost.unknown == (), (name, region, usage)
