"""Ways around all rules: other packages, templates inside a resource, code inside a resource."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gpufleet.policies.rules.security.judged_resources import judged_resources
from gpufleet.policy.evaluation import RuleEvaluator, RuleViolation
from gpufleet.policy.examples import policy_context, resource
from gpufleet.policy.settings import PackConfig, configure
from gpufleet.resources.resource import UNKNOWN, ProviderInstance, Resource
from gpufleet.resources.stack import Stack

Ask = Callable[..., list[RuleViolation]]


def made_by(kind: str) -> Resource:
    """A resource of another package, with its provider."""
    package = kind.partition(":")[0]
    provider = ProviderInstance(
        f"pulumi:providers:{package}", package, f"urn:pulumi:s::p::pulumi:providers:{package}::d"
    )
    return replace(resource({"type": kind}), provider=provider)


def judge(judged: Resource) -> list[RuleViolation]:
    return RuleEvaluator(configure([judged_resources]), policy_context()).resource(judged)


@pytest.mark.parametrize(
    "kind", ["aws-native:ec2:SecurityGroup", "command:local:Command", "awscc:s3:Bucket", "terraform:state:X"]
)
def test_resource_of_another_package_is_found(kind: str) -> None:
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
def test_resource_that_creates_hidden_resources_is_found(kind: str, ask: Ask) -> None:
    assert ask("judged-resources", {"type": kind})


@pytest.mark.parametrize(
    "kind",
    [
        "kubernetes:ec2.services.k8s.aws/v1alpha1:Instance",
        "kubernetes:ec2.aws.upbound.io/v1beta1:SecurityGroup",
        "kubernetes:infrastructure.cluster.x-k8s.io/v1beta2:AWSMachinePool",
        "kubernetes:karpenter.k8s.aws/v1:EC2NodeClassPatch",
        "kubernetes:core/v1:ServiceList",
        "kubernetes:helm.sh/v3:Release",
    ],
)
def test_hidden_resources_of_controllers_lists_and_charts_are_found(kind: str) -> None:
    assert judge(made_by(kind))


@pytest.mark.parametrize(
    "kind",
    [
        "kubernetes:core/v1:Namespace",
        "kubernetes:apps/v1:DaemonSetPatch",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
        "kubernetes:kueue.x-k8s.io/v1beta1:ClusterQueue",
    ],
)
def test_objects_inside_the_cluster_pass(kind: str) -> None:
    assert judge(made_by(kind)) == []


def test_chart_is_allowed_only_by_repository_and_name() -> None:
    def release(**props: object) -> Resource:
        return replace(made_by("kubernetes:helm.sh/v3:Release"), props=props)

    nvidia = {"repo": "https://helm.ngc.nvidia.com/nvidia"}
    assert judge(release(chart="gpu-operator", repositoryOpts=nvidia)) == []
    assert judge(release(chart="gpu-operator", repositoryOpts={"repo": "https://charts.example.com"}))
    assert judge(release(chart="gpu-operator", repositoryOpts=UNKNOWN))
    assert judge(release(chart="gpu-operator"))


def test_dynamic_resource_is_allowed_by_its_type() -> None:
    kind = "pulumi-python:dynamic:Reviewed"
    settings = {"judged-resources": PackConfig(settings={"dynamic": (kind,)})}
    judge_reviewed = RuleEvaluator(configure([judged_resources], pack_config=settings), policy_context())
    assert judge_reviewed.resource(made_by(kind)) == []
    assert judge(made_by(kind))


@pytest.mark.parametrize(
    "kind", ["pulumi:pulumi:StackReference", "aws:ec2/managedPrefixList:ManagedPrefixList"]
)
def test_type_that_only_looks_like_a_hidden_resource_passes(kind: str) -> None:
    assert judge(made_by(kind)) == []


@pytest.mark.parametrize(
    ("props", "shown"),
    [
        ({}, "the chart (unknown) was not reviewed"),
        ({"chart": UNKNOWN, "repositoryOpts": UNKNOWN}, "the chart (unknown) was not reviewed"),
        ({"chart": "x"}, "the chart x was not reviewed"),
        (
            {"chart": "x", "repositoryOpts": {"repo": "https://a.example/"}},
            "the chart https://a.example/x was",
        ),
    ],
)
def test_message_has_the_repository_and_the_name_of_a_chart(props: dict[str, object], shown: str) -> None:
    (found,) = judge(replace(made_by("kubernetes:helm.sh/v3:Release"), props=props))
    assert shown in found.message


def test_components_are_not_package_resources(ask: Ask) -> None:
    assert ask("judged-resources", {"type": "other:module:Component"}) == []


def test_reviewed_package_is_allowed_by_a_setting(ask: Ask) -> None:
    native = {"type": "pulumi:providers:aws-native"}
    assert ask("judged-resources", native, settings={"packages": ["aws", "aws-native"]}) == []


def test_all_resources_of_the_shipped_environments_are_judged(emitted: Callable[[str], Stack]) -> None:
    stack = emitted("sandbox")
    assert [found.message for each in stack for found in judge(each)] == []
    assert any(each.provider is not None for each in stack)
