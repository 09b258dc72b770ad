"""Properties that hold for any fleet: sums, order of sizes, and a plan that is a function of its spec."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.json import plan_to_json
from gpufleet.plan.models import CostRange
from gpufleet.spec.models import FleetSpec
from tests.unit.plan.fleets import CATALOG, block, cloud_site, group, odcr, on_demand, rack_site, spec, spot

REGIONS = ["us-east-1", "us-west-2", "us-east-2", "eu-north-1", "ap-northeast-1"]
SEEDS = range(40)


def _capacity(chance: random.Random) -> dict[str, Any]:
    low = chance.randint(0, 4)
    high = low + chance.randint(0, 6)
    shortage = chance.sample(["other-zone", "other-type", "on-demand", "wait"], 2)
    return chance.choice(
        [
            on_demand(low, high, chance.randint(low, high)),
            spot(low, high, *shortage),
            block(chance.randint(1, 64), duration=f"{chance.choice([1, 5, 14, 49, 182])} d"),
            odcr(chance.randint(1, 8)),
        ]
    )


def _fleet(seed: int) -> FleetSpec:
    chance = random.Random(seed)
    types = sorted(CATALOG.instances)
    cloud = []
    for number in range(chance.randint(0, 3)):
        region = chance.choice(REGIONS)
        zones = list(CATALOG.zones(region))[: chance.randint(1, 3)]
        groups = [
            group(
                f"g{index}",
                chance.sample(types, chance.randint(1, 3)),
                _capacity(chance),
                team=chance.choice([None, "a", "b"]),
                zones=chance.choice([[], zones[:1]]),
            )
            for index in range(chance.randint(0, 4))
        ]
        lustre = {"capacity": f"{2400 * chance.randint(1, 20)} GiB", "throughput": "125 MB/s/TiB"}
        cloud.append(
            cloud_site(
                *groups,
                site=f"c{number}",
                region=region,
                zones=zones,
                network={
                    "cidr": f"10.{number}.0.0/{chance.randint(16, 22)}",
                    "nat": chance.choice(["none", "single"]),
                },
                scheduler=chance.choice(["kubernetes", "slurm"]),
                storage=chance.choice([[], [{"name": "fs", "mount": "/fsx", "lustre": lustre}]]),
            )
        )
    racks = [
        rack_site(
            site=f"r{number}",
            system=chance.choice(sorted(CATALOG.systems)),
            nodes=f"r{number}n[01-{chance.randint(2, 40):02}]",
            ownership=chance.choice([None, {"acquisition": "270001 USD", "lifetime": "7 y"}]),
        )
        for number in range(chance.randint(0, 2))
    ]
    return spec(cloud=cloud, onprem=racks)


def _sum(ranges: list[CostRange]) -> tuple[Decimal, Decimal, Decimal]:
    return (
        sum((item.low or Decimal(0) for item in ranges), Decimal(0)),
        sum((item.expected or Decimal(0) for item in ranges), Decimal(0)),
        sum((item.high or Decimal(0) for item in ranges), Decimal(0)),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_by_site_by_owner_and_by_common_tag_are_the_whole(seed: int) -> None:
    cost = build_plan(_fleet(seed), CATALOG).cost
    whole = _sum([cost.monthly])
    assert _sum([item.monthly for item in cost.lines]) == whole
    assert _sum(list(cost.by_site.values())) == whole
    assert _sum(list(cost.by_owner.values())) == whole
    assert _sum(list(cost.by_tag.get("project", {}).values())) == whole
    assert _sum(list(cost.by_tag.get("gpufleet:site", {}).values())) == whole


@pytest.mark.parametrize("seed", SEEDS)
def test_low_expected_and_high_are_in_this_order_and_never_below_zero(seed: int) -> None:
    for item in build_plan(_fleet(seed), CATALOG).cost.lines:
        assert item.monthly.low is not None
        assert item.monthly.expected is not None
        assert item.monthly.high is not None
        assert 0 <= item.monthly.low <= item.monthly.high, item
        assert 0 <= item.monthly.expected <= item.monthly.high, item


@pytest.mark.parametrize("seed", SEEDS)
def test_a_larger_maximum_never_costs_less(seed: int) -> None:
    fleet = _fleet(seed)
    data = fleet.model_dump()
    for site in data["cloud"]:
        for each in site["node_groups"]:
            for kind in ("on_demand", "spot"):
                if each["capacity"][kind] is not None:
                    each["capacity"][kind]["max"] += 3
    before, after = (
        build_plan(each, CATALOG).cost.monthly for each in (fleet, FleetSpec.model_validate(data))
    )
    assert (before.low, before.expected) == (after.low, after.expected)
    if before.high is not None:
        assert after.high is not None
        assert after.high >= before.high


@pytest.mark.parametrize("seed", SEEDS)
def test_the_plan_is_a_function_of_its_spec_to_the_last_byte(seed: int) -> None:
    one, other = build_plan(_fleet(seed), CATALOG), build_plan(_fleet(seed), CATALOG)
    assert one == other
    assert json.dumps(plan_to_json(one)) == json.dumps(plan_to_json(other))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_capacity_block_never_has_a_placement_group_in_any_fleet(seed: int) -> None:
    for each in build_plan(_fleet(seed), CATALOG).node_groups:
        assert not (each.capacity.kind == "capacity-block" and each.placement_group)
        assert each.capacity.min <= each.capacity.desired <= each.capacity.max
        assert each.network_interfaces[0].interface_type == "interface"
