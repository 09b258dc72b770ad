"""A fleet whose budget drains spot nodes: what the stack makes, and keeps while they drain."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi.runtime.mocks import MockCallArgs

from gpufleet.errors import InputError
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.report.cost_text import cloud_budget_lines
from gpufleet.resources.types import AUTO_SCALING_GROUP
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import EchoMocks, Recording, record
from tests.unit.plan.fleets import CATALOG, cloud_site, group, odcr, on_demand, spec, spot
from tests.unit.stacks.moto_mocks import simulated_actions

SWEEP, SERVE = "atlas-test-use1-sweep", "atlas-test-use1-serve"
SETTINGS = StackSettings("sandbox", "sandbox", True, None, {}, {})


def plan(on_breach: str = "drain-spot", **site: Any) -> FleetPlan:
    """A site with a spot group with a fallback, an on-demand group and a reservation, of two teams."""
    groups = [
        group("sweep", "g6.xlarge", spot(1, 8, "on-demand"), team="a"),
        group("serve", "g6.xlarge", on_demand(1, 4), team="b"),
        group("held", "g6.xlarge", odcr(1)),
    ]
    budget = {
        "monthly": "100000 USD",
        "on_breach": on_breach,
        "teams": {"a": "50000 USD", "b": "40000 USD"},
        "sites": {"use1": "90000 USD"},
    }
    site = {"interruptions": {}, **site}
    return build_plan(spec(cloud=[cloud_site(*groups, **site)], budget=budget), CATALOG)


class DrainedMocks(EchoMocks):
    """The spot group drains; it was stopped before, at four nodes."""

    def call(self, args: MockCallArgs) -> Any:
        if args.token != "aws:ssm/getParametersByPath:getParametersByPath":
            return super().call(args)
        path = "/gpufleet/atlas/test"
        found: dict[str, dict[str, Any]] = {
            path: {f"{path}/stopped-groups": {"since": "2030-05-04", "groups": {SWEEP: [8, 4, 4]}}},
            f"{path}/drained": {
                f"{path}/drained/{SWEEP}": {"since": "2030-05-05", "sizes": [1, 3, 4]},
            },
        }
        values = found[args.args["path"]]
        return {"names": list(values), "values": [json.dumps(each) for each in values.values()]}


def built(of: FleetPlan, mocks: EchoMocks | None = None) -> Recording:
    return record(lambda: build_fleet(of, SETTINGS), mocks or EchoMocks())


def sizes(made: Recording) -> dict[str, tuple[int, int, int]]:
    return {
        each.name: (each.inputs["minSize"], each.inputs["desiredCapacity"], each.inputs["maxSize"])
        for each in made.of(AUTO_SCALING_GROUP)
    }


def test_group_that_drains_keeps_its_sizes_and_all_else_is_as_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before, during = built(plan()), built(plan(), DrainedMocks())
    assert {r.urn for r in before} == {r.urn for r in during}
    assert sizes(during) == sizes(before) | {SWEEP: (0, 3, 4)}
    assert f"the spot nodes of {SWEEP} drain" in caplog.text


def test_function_gets_the_spot_groups_of_each_cap_and_only_they_have_its_tag() -> None:
    made = built(plan())
    function = made.one("Function", "atlas-test-budget-drain")
    settings = json.loads(function.inputs["code"]["settings.json"])
    assert settings["budgets"] == {
        "atlas-test-budget": [SWEEP],
        "atlas-test-budget-site-use1": [SWEEP],
        "atlas-test-budget-team-a": [SWEEP],
        "atlas-test-budget-team-b": [],
    }
    assert settings["sites"] == [
        {
            "name": "use1",
            "region": "us-east-1",
            "cluster": "",
            "queue": "atlas-test-use1-notices",
            "tags": {"gpufleet:site": "use1"},
        }
    ]
    tagged = [
        each.name
        for each in made.of(AUTO_SCALING_GROUP)
        if any(tag["key"] == "gpufleet:budget-drain" for tag in each.inputs["tags"])
    ]
    assert tagged == [SWEEP]


@pytest.mark.parametrize("on_breach", ["notify", "stop-scale-out"])
def test_without_the_drain_nothing_of_it_is_made(on_breach: str) -> None:
    without, having = built(plan(on_breach)), built(plan())
    assert not [each for each in without if "drain" in each.name]
    for each in without.of("LaunchTemplate"):
        assert having.one("LaunchTemplate", each.name).inputs == each.inputs


def test_spot_site_without_a_handler_is_refused() -> None:
    with pytest.raises(InputError, match="site use1 has spot nodes"):
        built(plan(interruptions=None))


def test_plan_and_preflight_say_what_the_drain_needs() -> None:
    of = plan()
    assert [each.name for each in of.log_groups] == [
        "/aws/lambda/atlas-test-budget-stop",
        "/aws/lambda/atlas-test-budget-drain",
    ]
    assert "autoscaling:CreateOrUpdateTags" in simulated_actions(of)
    assert "at 110% spot nodes of 1 drain" in cloud_budget_lines(of, "USD")[0]
    assert "drain" not in "".join(cloud_budget_lines(plan("stop-scale-out"), "USD"))
