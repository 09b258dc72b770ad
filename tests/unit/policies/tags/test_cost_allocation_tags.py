"""cost-allocation-tags: which keys are active, here or elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policies.rules.tags.cost_allocation_tags import ACTIVATION, cost_allocation_tags
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN

Ask = Callable[..., list[RuleViolation]]
RULE = "cost-allocation-tags"
WANTED = {"keys": ["team", "gpufleet:site"]}


def activation(key: Any, status: Any = "Active", **more: Any) -> dict[str, Any]:
    return {"type": ACTIVATION, "name": str(key), "props": {"tagKey": key, "status": status}, **more}


def test_rule_is_advisory_by_default() -> None:
    assert cost_allocation_tags.enforcement == "advisory"


def test_activated_keys_and_those_active_elsewhere_pass(ask: Ask) -> None:
    assert ask(RULE, activation("team"), activation("gpufleet:site"), settings=WANTED) == []
    elsewhere = {**WANTED, "active_elsewhere": ["gpufleet:site"]}
    assert ask(RULE, activation("team"), settings=elsewhere) == []


def test_stack_without_activations_lacks_required_and_gpufleet_keys(ask: Ask) -> None:
    (found,) = ask(RULE)
    assert "team, cost-center, project, gpufleet:environment" in found.message
    assert found.urn == ""


@pytest.mark.parametrize("key", ["Team", "team "])
def test_key_in_another_spelling_activates_another_key(ask: Ask, key: str) -> None:
    (found,) = ask(RULE, activation(key), activation("gpufleet:site"), settings=WANTED)
    assert "team are not activated" in found.message


@pytest.mark.parametrize("status", ["Inactive", "active", None])
def test_inactive_activation_is_found_with_its_resource(ask: Ask, status: Any) -> None:
    found = ask(RULE, activation("team", status), activation("gpufleet:site"), settings=WANTED)
    assert [each.urn.endswith("::team") for each in found] == [True, False]


def test_unknown_key_or_status_activates_nothing(ask: Ask) -> None:
    for unclear in (activation(UNKNOWN), activation("team", UNKNOWN)):
        (found,) = ask(RULE, unclear, activation("gpufleet:site"), settings=WANTED)
        assert found.violation.unknown
        assert "team" in found.message
