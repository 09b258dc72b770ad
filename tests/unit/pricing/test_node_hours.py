"""What an hour of a node costs that Slurm launches."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet.plan import build_plan
from gpufleet.pricing.node_hours import node_hours
from gpufleet.pricing.rates import MONTH
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, spec
from tests.unit.plan.random_fleets import LAUNCHED, SLURM_RACK


@pytest.mark.parametrize("most", [1, 7])
def test_hour_is_that_of_the_instance_and_its_volume_whatever_the_maximum(most: int) -> None:
    nodes = group("sweep", "g6.xlarge", on_demand(0, most), image="ami-0123456789abcdef0")
    plan = build_plan(spec(cloud=[cloud_site(nodes, slurm=LAUNCHED)], onprem=[SLURM_RACK]), CATALOG)
    instance = CATALOG.on_demand("g6.xlarge", "us-east-1").amount
    volume = CATALOG.service_price("ebs-gp3", "us-east-1").amount
    assert instance is not None and volume is not None
    (found,) = node_hours(plan, CATALOG, plan.cloud[0]).values()
    assert found is not None
    assert abs(found - (instance + 200 * volume / MONTH)) < Decimal("0.0001")


def test_hour_without_a_known_price_is_unknown() -> None:
    nodes = group("sweep", "p5e.48xlarge", on_demand(0, 2), image="ami-0123456789abcdef0")
    plan = build_plan(spec(cloud=[cloud_site(nodes, slurm=LAUNCHED)], onprem=[SLURM_RACK]), CATALOG)
    assert not CATALOG.on_demand("p5e.48xlarge", "us-east-1").known
    assert node_hours(plan, CATALOG, plan.cloud[0]) == {"sweep": None}
