"""The types of rules exist, and the program creates them: a renamed type is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Rule
from gpufleet.resources.aws_types import exists, former, renamed
from gpufleet.resources.stack import Stack

ROOT = Path(__file__).resolve().parents[3]
RULES = [rule for rule in load_rules(ROOT) if rule.types]
ELSEWHERE = ("pulumi:providers:", "gpufleet:", "kubernetes:", "pulumi-python:dynamic/")

NOT_OURS = {
    "data-stores-encrypted": "a fleet has no databases; an added one is judged",
    "no-long-lived-keys": "our programs make roles and no users: the rule says that it stays so",
    "queues-encrypted": "no component creates a queue; an added one is judged",
    "secrets-rotated": "no component makes a secret: pods and nodes get roles",
    "resource-shares-declared": "no shipped environment shares a reservation; one that does is checked",
    "karpenter-images-pinned": "they scale EKS node groups; test_karpenter.py judges our node pools",
    "node-pools-limited": "they scale EKS node groups; test_karpenter.py judges our node pools",
    "cost-allocation-tags": "only the account that pays activates keys, and it is none of our stacks'",
}
"""Rule -> why no shipped environment has any of its types."""


def of(rule: Rule[Any]) -> str:
    return rule.name


@pytest.mark.parametrize("rule", RULES, ids=of)
def test_every_type_of_a_rule_exists(rule: Rule[Any]) -> None:
    wrong = [each for each in sorted(rule.types) if not each.startswith(ELSEWHERE) and not exists(each)]
    assert wrong == [], f"pulumi_aws has no such types: {wrong}"


@pytest.mark.parametrize("rule", RULES, ids=of)
def test_rule_covers_every_name_of_a_renamed_type(rule: Rule[Any]) -> None:
    """The SDK still has the old names, and a resource under one of them is the same thing to AWS."""
    names = {name for each in rule.types for name in (renamed(each), *former(each)) if name is not None}
    assert names - rule.types == set()


def test_rules_unused_by_the_shipped_environments_are_listed_with_a_reason(
    emitted: Callable[[str], Stack],
) -> None:
    present = {each.type for environment in ("sandbox", "prod", "dev") for each in emitted(environment)}
    idle = {rule.name for rule in RULES if not rule.types & present}
    assert idle == set(NOT_OURS)
