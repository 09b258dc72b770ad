"""The program's resources cost what the plan of its fleet file says, and are within its budgets."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpufleet.policy.evaluation import RuleEvaluator
from gpufleet.policy.fleet import StackOfFleet, open_stack
from gpufleet.policy.pack import load_rules
from gpufleet.policy.settings import configure
from gpufleet.pricing import price_plan, price_stack
from gpufleet.pricing.of_stack.table import BY_USE, FREE, FREE_MODULES, PRICED
from gpufleet.resources.stack import Stack

ROOT = Path(__file__).resolve().parents[4]
ENVIRONMENTS = ("sandbox", "dev", "prod")


def fleet(environment: str) -> StackOfFleet:
    now = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
    return open_stack(ROOT, "gpufleet", environment, {}, preview=True, now=now)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_previewed_resources_cost_what_the_plan_says_line_by_line(
    emitted: Callable[[str], Stack], environment: str
) -> None:
    """With the engine's own preview; tests/unit/pricing/test_one_price.py asks more fleets, on mocks."""
    shared = fleet(environment).shared
    assert shared.plan is not None
    found = price_stack(emitted(environment), shared.catalog, shared.plan)
    plan = price_plan(shared.plan, shared.catalog)
    assert Counter(replace(line, urn="") for line in found.lines) == Counter(plan.lines)
    assert found.total == plan.total
    assert set(found.not_counted) == set(plan.not_counted)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_shipped_environments_break_no_budget_rule(emitted: Callable[[str], Stack], environment: str) -> None:
    opened = fleet(environment)
    assert opened.loaded is not None
    rules = [rule for rule in load_rules(ROOT) if rule.group == "budget"]
    every = configure(load_rules(ROOT), opened.loaded.spec, opened.loaded.source)
    judge = RuleEvaluator([each for each in every if each.rule in rules], opened.shared)
    found = judge.stack(emitted(environment))
    assert [each.message for each in found if each.level == "mandatory"] == []
    assert {each.rule.name for each in found} <= {"price-catalog-age"}


def test_components_create_the_types_that_budget_rules_check(emitted: Callable[[str], Stack]) -> None:
    types = {each.type for environment in ENVIRONMENTS for each in emitted(environment)}
    for kind in (
        "aws:eks/nodeGroup:NodeGroup",
        "aws:autoscaling/group:Group",
        "aws:ec2/launchTemplate:LaunchTemplate",
        "aws:ec2/capacityReservation:CapacityReservation",
        "aws:ec2/capacityBlockReservation:CapacityBlockReservation",
        "pulumi-python:dynamic/capacity:CapacityBlockOffering",
        "pulumi-python:dynamic/capacity:CapacityBlockSchedule",
        "aws:fsx/lustreFileSystem:LustreFileSystem",
        "aws:ec2/natGateway:NatGateway",
        "aws:eks/cluster:Cluster",
        "aws:ec2/eip:Eip",
        "aws:kms/key:Key",
    ):
        assert kind in types, kind
        assert kind in PRICED or kind in FREE, kind


def test_every_type_of_the_components_is_in_the_table(emitted: Callable[[str], Stack]) -> None:
    types = {each.type for environment in ENVIRONMENTS for each in emitted(environment)}
    known = {*PRICED, *FREE, *BY_USE}
    assert [
        each
        for each in sorted(types)
        if each.startswith("aws:") and each not in known and not each.startswith(tuple(FREE_MODULES))
    ] == []
