"""Asking one change-safety rule about a described change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpufleet.policy import examples
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Example, Rule

RULES: Mapping[str, Rule[Any]] = {rule.name: rule for rule in load_rules(Path(__file__).resolve().parents[4])}


@pytest.fixture
def ask() -> Callable[..., list[RuleViolation]]:
    """`ask("rule-name", before=[...], after=[...], settings={...}, fleet={...}, jobs={...})`."""

    def judged(
        name: str,
        before: Sequence[Mapping[str, Any]] = (),
        after: Sequence[Mapping[str, Any]] = (),
        **more: Any,
    ) -> list[RuleViolation]:
        known = {key: more.pop(key) for key in ("settings", "fleet", "fleet_before", "jobs") if key in more}
        example = Example(tuple(after), before=tuple(before), **known)
        found = examples.evaluate(RULES[name], example, **more)
        assert not [each.message for each in found if "the rule failed with" in each.message]
        return found

    return judged
