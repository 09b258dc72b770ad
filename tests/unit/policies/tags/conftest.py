"""Run one tag rule on described resources, with additional properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.policy import examples
from gpufleet.policy.evaluation import RuleEvaluator, RuleViolation
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Rule
from gpufleet.policy.settings import ConfiguredRule
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack

ROOT = Path(__file__).resolve().parents[4]
RULES: Mapping[str, Rule[Any]] = {rule.name: rule for rule in load_rules(ROOT) if rule.group == "tags"}

Ask = Callable[..., list[RuleViolation]]


@pytest.fixture
def ask() -> Ask:
    """`ask("rule-name", resource, resource..., settings=..., fleet=..., provider=...)` -> its violations.

    `provider` are inputs of the provider of all the resources.
    """

    def judged(
        name: str,
        *resources: Mapping[str, Any],
        settings: Mapping[str, Any] | None = None,
        fleet: Mapping[str, Any] | None = None,
        provider: Mapping[str, Any] | None = None,
    ) -> list[RuleViolation]:
        rule = RULES[name]
        stack = Stack(_with_provider(each, provider or {}) for each in examples.stack(resources))
        configured = ConfiguredRule(rule, rule.enforcement, rule.settings.model_validate(settings or {}))
        judge = RuleEvaluator([configured], examples.policy_context(fleet))
        found = judge.stack(stack) if rule.scope == "stack" else [f for r in stack for f in judge.resource(r)]
        assert not [each.message for each in found if "the rule failed with" in each.message]
        return found

    return judged


def _with_provider(resource: Resource, inputs: Mapping[str, Any]) -> Resource:
    if resource.provider is None:
        return resource
    return replace(
        resource,
        provider=replace(resource.provider, props={**resource.provider.props, **inputs}),
        options=replace(resource.options, aliases=("urn:pulumi:prod::gpufleet::aws:old/type:Type::old",)),
    )
