"""Every rule of the pack by its own examples, which its documentation shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpufleet.policy import examples
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Rule

ROOT = Path(__file__).resolve().parents[3]
RULES = load_rules(ROOT)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_passing_example_breaks_no_rule(rule: Rule[Any]) -> None:
    assert [each.message for each in examples.evaluate(rule, rule.passes)] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_failing_example_is_found_with_value_rule_and_remedy(rule: Rule[Any]) -> None:
    found = examples.evaluate(rule, rule.fails)
    assert found != []
    assert all(each.violation.message and each.violation.remedy for each in found)
    assert not any("the rule failed with" in each.message for each in found)
