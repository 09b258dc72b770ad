"""Ways around all rules: other packages, templates inside a resource, code inside a resource."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpufleet.policy.examples import resource, surroundings
from gpufleet.policy.judge import Judge, Judgement
from gpufleet.policy.resource import Provider, Resource
from gpufleet.policy.settings import configure
from gpufleet.policy.stack import Stack
from policies.rules.security.judged_resources import judged_resources

Ask = Callable[..., list[Judgement]]


def made_by(kind: str) -> Resource:
    """A resource of another package, with its provider."""
    package = kind.partition(":")[0]
    provider = Provider(
        f"pulumi:providers:{package}", package, f"urn:pulumi:s::p::pulumi:providers:{package}::d"
    )
    return replace(resource({"type": kind}), provider=provider)


def judge(judged: Resource) -> list[Judgement]:
    return Judge(configure([judged_resources]), surroundings()).resource(judged)


@pytest.mark.parametrize(
    "kind", ["aws-native:ec2:SecurityGroup", "command:local:Command", "awscc:s3:Bucket", "terraform:state:X"]
)
def test_a_resource_of_another_package_is_found(kind: str) -> None:
    (found,) = judge(made_by(kind))
    assert kind in found.message


@pytest.mark.parametrize(
    "kind",
    [
        "aws:cloudcontrol/resource:Resource",
        "aws:cloudformation/stack:Stack",
        "aws:cloudformation/stackSet:StackSet",
        "pulumi:providers:aws-native",
        "pulumi-python:dynamic:Resource",
        "pulumi-python:dynamic/anything:AtAll",
    ],
)
def test_a_resource_that_makes_others_unseen_is_found(kind: str, ask: Ask) -> None:
    assert ask("judged-resources", {"type": kind})


def test_components_are_no_resources_of_a_package(ask: Ask) -> None:
    assert ask("judged-resources", {"type": "other:module:Component"}) == []


def test_a_package_that_was_reviewed_is_let_by_a_setting(ask: Ask) -> None:
    native = {"type": "pulumi:providers:aws-native"}
    assert ask("judged-resources", native, settings={"packages": ["aws", "aws-native"]}) == []


def test_everything_in_our_environments_is_where_rules_look(emitted: Callable[[str], Stack]) -> None:
    stack = emitted("sandbox")
    assert [found.message for each in stack for found in judge(each)] == []
    assert any(each.provider is not None for each in stack)
