"""An order of a fleet in moto: what it draws, its outputs, and the calls that preflight simulates."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.client import BaseClient

from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.resources.types import BLOCK_SCHEDULE, ORDERED_CAPACITY
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import record
from tests.unit.plan.fleets import CATALOG, block, cloud_site, group, odcr, on_demand, spec, spot
from tests.unit.stacks.moto_mocks import MotoMocks, emulated_aws, simulated_actions

SETTINGS = StackSettings("sandbox", "sandbox", False, None, {}, {})
TYPE = "g6.xlarge"


def plan(scheduler: str, *groups: dict[str, Any]) -> FleetPlan:
    names = [each["name"] for each in groups]
    site = cloud_site(
        *groups,
        ordered_capacity=[{"name": "train", "nodes": 4, "at_least": 2, "groups": names}],
        scheduler=scheduler,
    )
    return build_plan(spec(cloud=[site]), CATALOG)


@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes"])
def test_nodes_are_drawn_by_calls_that_preflight_simulates(scheduler: str) -> None:
    of = plan(
        scheduler, group("a", TYPE, odcr(1)), group("b", TYPE, spot(0, 2)), group("c", TYPE, on_demand(0, 4))
    )
    calls: set[str] = set()
    original = BaseClient._make_api_call

    def recorded(client: Any, operation: str, parameters: Any) -> Any:
        calls.add(f"{client.meta.service_model.service_name}:{operation}")
        return original(client, operation, parameters)

    with emulated_aws(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", recorded)
        made = record(lambda: build_fleet(of, SETTINGS), MotoMocks())
    (order,) = made.of(ORDERED_CAPACITY)
    (sources,) = order.inputs["places"]
    assert [(each["name"], each["most"], each["expected"], each["paid"]) for each in sources] == [
        ("a", 1, 1, 1),
        ("b", 2, 2, 0),
        ("c", 4, 1, 0),
    ]
    simulated = simulated_actions(of)
    asked = {call for call in calls if call.startswith("autoscaling:Set") or "Terminate" in call}
    assert asked and asked <= simulated
    groups = made.of("NodeGroup" if scheduler == "kubernetes" else "aws:autoscaling/group:Group")
    sizes = {
        each.name.rpartition("-")[2]: (
            each.inputs["scalingConfig"] if scheduler == "kubernetes" else each.inputs
        )
        for each in groups
        if each.type.startswith("aws:")
    }
    for name in "abc":
        assert sizes[name].get("desiredSize", sizes[name].get("desiredCapacity")) == 0


def test_block_of_an_order_only_stops_by_its_schedule() -> None:
    of = plan("slurm", group("a", "p5.48xlarge", block(1)), group("b", "p5.48xlarge", on_demand(0, 4)))
    made = record(lambda: build_fleet(of, SETTINGS))
    assert made.one(BLOCK_SCHEDULE).inputs["stops_only"] is True
    (first, second) = made.one(ORDERED_CAPACITY).inputs["places"][0]
    assert first["block_id"] and "block_id" not in second
