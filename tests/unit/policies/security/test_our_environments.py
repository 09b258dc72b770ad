"""The security rules on the resources of this checkout's environments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi_aws
import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Rule
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import NODE_CLASS, PROVIDER

ROOT = Path(__file__).resolve().parents[4]
RULES = [rule for rule in load_rules(ROOT) if rule.group == "security"]
NOT_OURS = {
    # No component creates types of these rules.
    "queues-encrypted",
    "secrets-rotated",
    "data-stores-encrypted",
    "no-long-lived-keys",
    # No shipped environment shares a reservation.
    "resource-shares-declared",
    # The shipped environments scale EKS node groups; tests/unit/policies/test_karpenter.py judges node pools.
    "karpenter-images-pinned",
}


@pytest.fixture(scope="module")
def tokens() -> frozenset[str]:
    """All type tokens of pulumi_aws."""
    folder = Path(pulumi_aws.__file__).parent
    marker = '@pulumi.type_token("'
    return frozenset(
        line.removeprefix(marker).partition('"')[0]
        for path in folder.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith(marker)
    )


@pytest.mark.parametrize("environment", ["sandbox", "dev", "prod"])
def test_shipped_environments_break_no_security_rule(
    judge_emitted: Callable[[str], list[RuleViolation]], environment: str
) -> None:
    assert [f"{each.rule.name}: {each.urn}: {each.message}" for each in judge_emitted(environment)] == []


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.types and rule.name not in NOT_OURS], ids=lambda rule: rule.name
)
def test_components_create_a_type_that_the_rule_checks(
    rule: Rule[Any], emitted: Callable[[str], Stack]
) -> None:
    assert rule.types & {each.type for each in emitted("sandbox")}


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.types], ids=lambda rule: rule.name)
def test_types_of_a_rule_are_pulumi_aws_types(rule: Rule[Any], tokens: frozenset[str]) -> None:
    aws = {kind for kind in rule.types if kind.startswith("aws:")}
    assert aws <= tokens
    assert aws or rule.types in ({PROVIDER}, {NODE_CLASS})


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.name in NOT_OURS], ids=lambda rule: rule.name
)
def test_rule_marked_as_unused_has_no_type_of_the_components(
    rule: Rule[Any], emitted: Callable[[str], Stack]
) -> None:
    assert not rule.types & {each.type for each in emitted("sandbox")}
