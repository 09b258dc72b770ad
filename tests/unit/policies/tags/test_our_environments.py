"""The shipped environments pass all tag rules, have their types, and a removed tag is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.policies.rules.tags.copied_tags import ADDON
from gpufleet.policy.evaluation import RuleEvaluator, RuleViolation
from gpufleet.policy.examples import DAY
from gpufleet.policy.fleet import open_stack
from gpufleet.policy.settings import configure
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import AUTO_SCALING_GROUP, LAUNCH_TEMPLATE, LUSTRE, NODE_GROUP, PROVIDER, VPC
from tests.unit.policies.tags.conftest import ROOT, RULES

Emitted = Callable[[str], Stack]
ENVIRONMENTS = ("prod", "sandbox", "dev")
ADVICE = "cost-allocation-tags"


def judged(environment: str, stack: Stack) -> list[RuleViolation]:
    opened = open_stack(ROOT, "gpufleet", environment, {}, preview=True, now=DAY)
    assert opened.loaded is not None
    configured = configure(list(RULES.values()), None)
    judge = RuleEvaluator(configured, opened.shared)
    # A resource rule sees declared inputs, a stack rule outputs too.
    each = (replace(one, props=one.inputs if one.inputs is not None else one.props) for one in stack)
    return [*judge.stack(stack), *(found for one in each for found in judge.resource(one))]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_shipped_environments_pass_every_mandatory_rule(environment: str, emitted: Emitted) -> None:
    found = judged(environment, emitted(environment))
    assert [each.message for each in found if each.rule.name != ADVICE] == []
    # Whether the account that pays activated the keys is for its owner to say.
    assert [each.level for each in found] == ["advisory"]


@pytest.mark.parametrize("name", sorted(set(RULES) - {ADVICE}))
def test_sandbox_has_a_type_that_the_rule_checks(name: str, emitted: Emitted) -> None:
    assert emitted("sandbox").of_type(*sorted(RULES[name].types))


def test_sandbox_has_every_type_that_passes_tags_to_billed_resources(emitted: Emitted) -> None:
    stack = emitted("sandbox")
    for token in (LAUNCH_TEMPLATE, NODE_GROUP, AUTO_SCALING_GROUP, LUSTRE, ADDON, PROVIDER):
        assert stack.of_type(token)


Change = Callable[[dict[str, Any]], dict[str, Any]]


def changed(stack: Stack, kind: str, change: Change) -> Iterator[Resource]:
    """The stack's resources, with the inputs of those of a kind changed."""
    for resource in stack:
        if resource.type == kind and resource.inputs is not None:
            inputs = change(dict(resource.inputs))
            resource = replace(resource, props={**resource.props, **inputs}, inputs=inputs)
        yield resource


def without_interfaces(props: dict[str, Any]) -> dict[str, Any]:
    kept = [each for each in props["tagSpecifications"] if each["resourceType"] != "network-interface"]
    return {**props, "tagSpecifications": kept}


def only_the_name(props: dict[str, Any]) -> dict[str, Any]:
    return {**props, "tags": {"Name": props["tags"]["Name"]}}


def of_another_team(props: dict[str, Any]) -> dict[str, Any]:
    entries = [{**each, "value": "x"} if each["key"] == "team" else each for each in props["tags"]]
    return {**props, "tags": entries}


@pytest.mark.parametrize(
    ("kind", "change", "rules"),
    [
        (VPC, only_the_name, {"required-tags", "fleet-tags"}),
        (LAUNCH_TEMPLATE, lambda props: {**props, "tagSpecifications": []}, {"propagated-tags"}),
        (LAUNCH_TEMPLATE, without_interfaces, {"propagated-tags"}),
        (NODE_GROUP, lambda props: {**props, "launchTemplate": None}, {"propagated-tags"}),
        (AUTO_SCALING_GROUP, lambda props: {**props, "tags": None}, {"required-tags", "fleet-tags"}),
        (AUTO_SCALING_GROUP, of_another_team, {"fleet-tags"}),
        (LUSTRE, lambda props: {**props, "copyTagsToBackups": False}, {"copied-tags"}),
        (ADDON, lambda props: {**props, "configurationValues": None}, {"copied-tags"}),
    ],
)
def test_removed_tag_is_found(kind: str, change: Change, rules: set[str], emitted: Emitted) -> None:
    found = judged("prod", Stack(changed(emitted("prod"), kind, change)))
    assert {each.rule.name for each in found} - {ADVICE} == rules


def test_ignored_tag_changes_are_found(emitted: Emitted) -> None:
    stack = Stack(
        replace(each, options=replace(each.options, ignore_changes=("tags",))) if each.type == VPC else each
        for each in emitted("prod")
    )
    found = judged("prod", stack)
    assert {each.rule.name for each in found} - {ADVICE} == {"tag-changes-not-ignored"}
