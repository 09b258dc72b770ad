"""The shipped environments pass all capacity rules, and have the types that the rules check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.policy.pack import load_rules
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BLOCK_OFFERING,
    BLOCK_SCHEDULE,
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    CLUSTER,
    LAUNCH_TEMPLATE,
    LUSTRE,
    NODE_GROUP,
    NODE_POOL,
    PLACEMENT_GROUP,
    SECURITY_GROUP,
    SECURITY_GROUP_EGRESS,
    SECURITY_GROUP_INGRESS,
    SUBNET,
)

RULES = [rule for rule in load_rules(Path(__file__).resolve().parents[4]) if rule.group == "capacity"]
Judge = Callable[[str, str], list[RuleViolation]]


@pytest.mark.parametrize("environment", ["prod", "sandbox", "dev"])
@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_shipped_environments_pass_the_rule(environment: str, rule: str, judge_emitted: Judge) -> None:
    assert [each.message for each in judge_emitted(environment, rule)] == []


@pytest.mark.parametrize(
    # It scales EKS node groups; tests/unit/policies/test_karpenter.py judges node pools.
    "rule",
    [rule for rule in RULES if rule.types - {NODE_POOL}],
    ids=lambda rule: str(rule.name),
)
def test_sandbox_has_a_type_that_the_rule_checks(rule: object, emitted: Callable[[str], Stack]) -> None:
    assert emitted("sandbox").of_type(*sorted(rule.types))  # type: ignore[attr-defined]


def test_sandbox_has_every_type_that_the_rules_resolve(
    emitted: Callable[[str], Stack],
) -> None:
    present = {each.type for each in emitted("sandbox")}
    wanted = {
        AUTO_SCALING_GROUP,
        BLOCK_OFFERING,
        BLOCK_SCHEDULE,
        CAPACITY_BLOCK,
        CAPACITY_RESERVATION,
        CLUSTER,
        LAUNCH_TEMPLATE,
        LUSTRE,
        NODE_GROUP,
        PLACEMENT_GROUP,
        SECURITY_GROUP,
        SECURITY_GROUP_EGRESS,
        SECURITY_GROUP_INGRESS,
        SUBNET,
    }
    assert wanted - present == set()
