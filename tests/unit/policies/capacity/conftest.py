"""Run one capacity rule on described resources, and on the resources of an environment."""

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
from gpufleet.resources.stack import Stack

ROOT = Path(__file__).resolve().parents[4]
RULES: Mapping[str, Rule[Any]] = {rule.name: rule for rule in load_rules(ROOT)}

Ask = Callable[..., list[RuleViolation]]


@pytest.fixture
def ask() -> Ask:
    """`ask("rule-name", resource, resource..., settings={...}, fleet={...})` -> violations of the rule."""

    def judged(name: str, *resources: Mapping[str, Any], **more: Any) -> list[RuleViolation]:
        known = {key: more.pop(key) for key in ("settings", "fleet") if key in more}
        found = examples.evaluate(RULES[name], Example(resources, **known), **more)
        assert not [each.message for each in found if "the rule failed with" in each.message]
        return found

    return judged


@pytest.fixture(scope="session")
def judge_emitted(emitted: Callable[[str], Stack]) -> Callable[[str, str], list[RuleViolation]]:
    """Violations of a rule in an environment of this checkout, with the settings of its fleet file."""

    @cache
    def judge(environment: str, name: str) -> list[RuleViolation]:
        opened = open_stack(ROOT, "gpufleet", environment, {}, preview=True, now=DAY)
        assert opened.loaded is not None
        configured = configure(list(RULES.values()), opened.loaded.spec, opened.loaded.source)
        one = RuleEvaluator([each for each in configured if each.rule.name == name], opened.shared)
        stack = emitted(environment)
        return [*one.stack(stack), *(found for each in stack for found in one.resource(each))]

    return judge
