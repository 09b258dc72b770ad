"""Run one security rule on described resources, and on the resources of an environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpufleet.policy import examples
from gpufleet.policy.evaluation import RuleEvaluator, RuleViolation
from gpufleet.policy.examples import DAY
from gpufleet.policy.fleet import open_stack
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Example, Rule
from gpufleet.policy.settings import configure
from gpufleet.resources.launches import declared
from gpufleet.resources.stack import Stack

ROOT = Path(__file__).resolve().parents[4]
RULES: Mapping[str, Rule[Any]] = {rule.name: rule for rule in load_rules(ROOT)}

Ask = Callable[..., list[RuleViolation]]


@pytest.fixture
def ask() -> Ask:
    """`ask("rule-name", resource, resource..., settings={...}, fleet={...})` -> violations of the rule.

    Every violation must have a message, a remedy, and a resource.
    """

    def judged(name: str, *resources: Mapping[str, Any], **more: Any) -> list[RuleViolation]:
        known = {key: more.pop(key) for key in ("settings", "fleet") if key in more}
        found = examples.evaluate(RULES[name], Example(resources, **known), **more)
        assert not [each.message for each in found if "the rule failed with" in each.message]
        assert all(each.violation.message and each.violation.remedy and each.urn for each in found)
        return found

    return judged


@pytest.fixture(scope="session")
def judge_emitted(emitted: Callable[[str], Stack]) -> Callable[[str], list[RuleViolation]]:
    """Violations of all security rules in an environment of this checkout, with its fleet file's settings."""

    @cache
    def judge(environment: str) -> list[RuleViolation]:
        config = {"gpufleet:cloud": "sandbox", "gpufleet:protect": "true"}  # as a verdict's preview has it
        opened = open_stack(ROOT, "gpufleet", environment, config, preview=True, now=DAY)
        assert opened.loaded is not None
        configured = configure(list(RULES.values()), opened.loaded.spec, opened.loaded.source)
        ours = RuleEvaluator([each for each in configured if each.rule.group == "security"], opened.shared)
        stack = emitted(environment)
        return [*ours.stack(stack), *(found for each in stack for found in ours.resource(declared(each)))]

    return judge
