"""The sandbox has the types that change rules check, and its complete removal is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpufleet.policy import examples
from gpufleet.policy.change import StackChange
from gpufleet.policy.evaluation import RuleEvaluator
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Rule
from gpufleet.policy.settings import ConfiguredRule
from gpufleet.resources.stack import Stack

RULES = [rule for rule in load_rules(Path(__file__).resolve().parents[4]) if rule.group == "change-safety"]
OVER_RESOURCES = [rule for rule in RULES if rule.types]


def judged(rule: Rule[Any], before: Stack, after: Stack) -> list[str]:
    shared = examples.policy_context()
    change: StackChange = examples.change(before, after, shared)
    found = RuleEvaluator([ConfiguredRule(rule, "mandatory", rule.settings())], shared).change(change)
    assert not [each.message for each in found if "the rule failed with" in each.message]
    return [each.urn for each in found]


@pytest.mark.parametrize("rule", OVER_RESOURCES, ids=lambda rule: str(rule.name))
def test_removal_of_the_whole_sandbox_is_found(rule: Rule[Any], emitted: Callable[[str], Stack]) -> None:
    sandbox = emitted("sandbox")
    assert judged(rule, sandbox, Stack(())) != []
    assert judged(rule, sandbox, sandbox) == []
    assert judged(rule, Stack(()), sandbox) == []


def test_every_file_system_bucket_and_key_is_found(emitted: Callable[[str], Stack]) -> None:
    sandbox = emitted("sandbox")
    (rule,) = [rule for rule in RULES if rule.name == "storage-survives"]
    found = judged(rule, sandbox, Stack(()))
    kinds = [sandbox.by_urn[urn].type for urn in found]
    storage = [each for each in sandbox if each.type.startswith(("aws:fsx/lustre", "aws:s3/bucket:"))]
    assert {each.urn for each in storage} <= set(found)
    assert kinds.count("aws:kms/key:Key") >= 4
