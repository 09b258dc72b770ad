"""Leftovers of a crashed run can be identified, in every shipped environment."""

from __future__ import annotations

from collections import Counter

import pytest

from gpufleet.engine.embedded.recovery import FINDERS
from gpufleet.engine.embedded.recovery.aws_ids import ASSOCIATION, DERIVED, NAMED, REPEATABLE, TAGGED
from tests.unit.stacks.test_stack import ENVIRONMENTS, aws_resources, built


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_created_type_has_a_recovery_rule(environment: str) -> None:
    rules = {*NAMED, *TAGGED, *DERIVED, *REPEATABLE, ASSOCIATION}
    created = {resource.type for resource in aws_resources(environment)}
    assert len(created) > 20
    assert created - rules == set()


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_used_package_has_a_finder(environment: str) -> None:
    packages = {resource.type.split(":")[0] for resource in built(environment).resources}
    assert "aws" in packages
    assert packages - {"pulumi", "gpufleet"} <= FINDERS.keys()


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_no_two_resources_of_a_type_have_the_same_tags(environment: str) -> None:
    tags = Counter(
        (resource.type, tuple(sorted(resource.inputs["tags"].items())))
        for resource in aws_resources(environment)
        if resource.type in TAGGED
    )
    assert len(tags) > 20
    assert [key for key, count in tags.items() if count > 1] == []
