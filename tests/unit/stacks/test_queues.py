"""Queues in the stack of a fleet: what they add, what they leave, and that they cost nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.spec.models import FleetSpec
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import EchoMocks, Recording, record
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, spec
from tests.unit.pricing.test_one_price import assert_one_price

TEAMS = [{"name": "research", "gpus": 8}, {"name": "serving", "gpus": 4, "priority": "high"}]


def fleet(queues: dict[str, Any] | None) -> FleetSpec:
    settings: dict[str, Any] = {"private_cidrs": ["10.60.0.0/24"], "teams": TEAMS}
    if queues is not None:
        settings["queues"] = queues
    site = cloud_site(
        group("sweep", "g6.xlarge", on_demand(0, 4)), scheduler="kubernetes", kubernetes=settings
    )
    return spec(cloud=[site])


def plan(queues: dict[str, Any] | None) -> FleetPlan:
    return build_plan(fleet(queues), CATALOG)


def build(found: FleetPlan) -> Recording:
    return record(
        lambda: build_fleet(found, StackSettings("sandbox", "test", False, None, {}, {})), EchoMocks()
    )


@pytest.fixture(scope="module")
def made() -> Recording:
    return build(plan({"jobset": True, "leader_worker_set": True}))


def test_queues_add_resources_and_rename_none(made: Recording) -> None:
    before = build(plan(None))
    urns = {each.urn for each in before}
    assert urns < {each.urn for each in made}
    added = {each.type.rpartition(":")[2] for each in made if each.urn not in urns}
    assert added == {
        *("TeamQueues", "Namespace", "Release", "ResourceFlavor", "WorkloadPriorityClass"),
        *("ClusterQueue", "LocalQueue", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
    off = build(plan({"kind": "none"}))
    assert {each.urn: each.inputs for each in off} == {each.urn: each.inputs for each in before}


def test_namespaces_of_teams_say_their_priority_where_there_are_queues(made: Recording) -> None:
    def priorities(built: Recording) -> list[str | None]:
        names = ("research", "serving")
        found = {each.inputs["metadata"]["name"]: each.inputs["metadata"] for each in built.of("Namespace")}
        return [found[name]["labels"].get("gpufleet.io/priority") for name in names]

    assert priorities(made) == ["normal", "high"]
    assert priorities(build(plan(None))) == [None, None]


def test_quotas_of_namespaces_stay_the_limit_of_a_team(made: Recording) -> None:
    quotas = {
        each.inputs["metadata"]["namespace"]: each.inputs["spec"]["hard"]
        for each in made.of("ResourceQuota")
        if each.inputs["metadata"]["name"] == "gpus"
    }
    assert quotas == {
        "research": {"requests.nvidia.com/gpu": "8"},
        "serving": {"requests.nvidia.com/gpu": "4"},
    }


def test_queues_are_in_the_namespaces_of_teams(made: Recording) -> None:
    namespaces = {each.inputs["metadata"]["namespace"] for each in made.of("LocalQueue")}
    assert namespaces == {"research", "serving"}


def test_queues_cost_nothing() -> None:
    """Their pods run on system nodes, which are priced at their maximum."""
    assert_one_price(fleet({"jobset": True}))
