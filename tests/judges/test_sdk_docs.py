"""Inputs of every resource go together as the SDK's documentation says."""

from __future__ import annotations

import pytest

from tests.judges.fleets import Built
from tests.judges.sdk_docs import contradictions


def test_inputs_of_a_fleet_go_together(built: Built) -> None:
    made = [each for each in built.made if each.type.startswith("aws:")]
    assert len(made) > 50
    assert [found for each in made for found in contradictions(each.type, each.inputs)] == []


@pytest.mark.parametrize(
    ("token", "inputs", "wrong"),
    [
        ("aws:budgets/budget:Budget", {"filterExpression": {}}, "filterExpression requires metrics"),
        (
            "aws:budgets/budget:Budget",
            {"filterExpression": {}, "metrics": "Hours", "costTypes": {}},
            "metrics conflicts with costTypes",
        ),
        ("aws:lambda/function:Function", {"code": "a", "imageUri": "b"}, "code conflicts with imageUri"),
        (
            "aws:ec2/launchTemplate:LaunchTemplate",
            {"name": "a", "namePrefix": "b"},
            "namePrefix conflicts with name",
        ),
    ],
)
def test_contradiction_is_named(token: str, inputs: dict[str, object], wrong: str) -> None:
    assert contradictions(token, inputs) == [f"{token}: {wrong}"]


def test_requirement_of_one_value_holds_for_no_other() -> None:
    assert contradictions("aws:fsx/lustreFileSystem:LustreFileSystem", {"storageType": "SSD"}) == []
