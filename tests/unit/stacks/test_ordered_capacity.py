"""An order of a fleet in moto: what it draws, its outputs, and the calls that preflight simulates."""

from __future__ import annotations

import dataclasses
from typing import Any

import pulumi
import pytest
from botocore.client import BaseClient

from gpufleet.lab.aws.faults import shortage
from gpufleet.lab.aws.faults.plan import Shortage
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


@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes"])
def test_nodes_come_from_another_region_where_the_first_has_too_few(scheduler: str) -> None:
    order = {"name": "train", "nodes": 2, "groups": ["a", "usw2/b"]}
    east = cloud_site(group("a", TYPE, spot(0, 2)), ordered_capacity=[order], scheduler=scheduler)
    west = cloud_site(
        group("b", TYPE, on_demand(0, 4)),
        scheduler=scheduler,
        site="usw2",
        region="us-west-2",
        zones=["us-west-2a", "us-west-2b"],
        network={"cidr": "10.50.0.0/16", "nat": "single"},
    )
    of = build_plan(spec(cloud=[east, west]), CATALOG)
    # A quarter of the time that a wait takes is quiet after a failure.
    quick = dataclasses.replace(SETTINGS, capacity_wait_s=2)
    exports: dict[str, Any] = {}
    found: dict[str, Any] = {}

    def program() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pulumi, "export", exports.__setitem__)
            build_fleet(of, quick)
        orders = {site: exports[site]["ordered_capacity"] for site in ("use1", "usw2")}
        pulumi.Output.all(orders=orders, nodes=exports["nodes"]).apply(found.update)

    with emulated_aws():
        shortage.install(lambda: (Shortage(type=TYPE, market="spot"),))
        try:
            made = record(program, MotoMocks())
        finally:
            shortage.install(tuple)
    (drawn,) = made.of(ORDERED_CAPACITY)
    regions = [[each.get("region") for each in place] for place in drawn.inputs["places"]]
    assert regions == [[None], ["us-west-2"]]
    assert found["orders"]["use1"]["train"]["obtained"] == {"usw2/b": 2}
    assert found["orders"]["usw2"] == {}
    nodes = [(each["site"], each["node_group"]) for each in found["nodes"]]
    assert nodes == ([("usw2", "b")] * 2 if scheduler == "slurm" else [])
