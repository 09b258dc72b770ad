"""Karpenter's manifests, and what it may do in AWS beside what its project publishes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from gpufleet.components.base import AwsContext
from gpufleet.components.karpenter import Karpenter, KarpenterArgs
from gpufleet.components.karpenter_rights import KarpenterRights, iam_statements, stop_statements
from gpufleet.policy.examples import evaluate
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Example
from tests.conftest import ROOT
from tests.unit.components.recording import EchoMocks, Recording, record

ARGS = KarpenterArgs(
    cluster_name="atlas-prod-use1",
    cluster_endpoint="https://abc.eks.test",
    region="us-east-1",
    image="public.ecr.aws/karpenter/controller:1.14.1@sha256:0",
    version="1.14.1",
    labels={"gpufleet.io/site": "use1"},
)
RIGHTS = KarpenterRights(
    cluster="atlas",
    node_role_arn="arn:aws:iam::1:role/nodes",
    subnet_ids=["subnet-a", "subnet-b"],
    security_group_ids=["sg-nodes"],
)
OWNED = "kubernetes.io/cluster/atlas"
POOL = "karpenter.sh/nodepool"

LAUNCHED = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
PUBLISHED: tuple[tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "AllowScopedEC2InstanceAccessActions",
        ("ec2:RunInstances", "ec2:CreateFleet"),
        ("image", "snapshot", "security-group", "subnet", "capacity-reservation", "placement-group"),
        (),
    ),
    (
        "AllowScopedEC2LaunchTemplateAccessActions",
        ("ec2:RunInstances", "ec2:CreateFleet"),
        ("launch-template",),
        (f"aws:ResourceTag/{OWNED}", f"aws:ResourceTag/{POOL}"),
    ),
    (
        "AllowScopedEC2InstanceActionsWithTags",
        ("ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"),
        LAUNCHED,
        (f"aws:RequestTag/{OWNED}", "aws:RequestTag/eks:eks-cluster-name", f"aws:RequestTag/{POOL}"),
    ),
    (
        "AllowScopedResourceCreationTagging",
        ("ec2:CreateTags",),
        LAUNCHED,
        (
            f"aws:RequestTag/{OWNED}",
            "aws:RequestTag/eks:eks-cluster-name",
            "ec2:CreateAction",
            f"aws:RequestTag/{POOL}",
        ),
    ),
    (
        "AllowScopedResourceTagging",
        ("ec2:CreateTags",),
        ("instance",),
        (
            f"aws:ResourceTag/{OWNED}",
            f"aws:ResourceTag/{POOL}",
            "aws:RequestTag/eks:eks-cluster-name",
            "aws:TagKeys",
        ),
    ),
    (
        "AllowScopedDeletion",
        ("ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"),
        ("instance", "launch-template"),
        (f"aws:ResourceTag/{OWNED}", f"aws:ResourceTag/{POOL}"),
    ),
    ("AllowPassingInstanceRole", ("iam:PassRole",), ("role",), ("iam:PassedToService",)),
    ("AllowAPIServerEndpointDiscovery", ("eks:DescribeCluster",), ("cluster",), ()),
    (
        "AllowRegionalReadActions",
        (
            *("ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances"),
            *("ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes"),
            *("ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups", "ec2:DescribeSecurityGroups"),
            *("ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets"),
        ),
        ("*",),
        ("aws:RequestedRegion",),
    ),
    ("AllowPricingReadActions", ("pricing:GetProducts",), ("*",), ()),
    ("AllowUnscopedInstanceProfileListAction", ("iam:ListInstanceProfiles",), ("*",), ()),
    ("AllowInstanceProfileReadActions", ("iam:GetInstanceProfile",), ("instance-profile",), ()),
    # Not given: nodes have an instance profile of the stack, images have ids, notices go to our handler.
    (
        "AllowScopedInstanceProfileActions",
        (
            *("iam:CreateInstanceProfile", "iam:TagInstanceProfile", "iam:AddRoleToInstanceProfile"),
            *("iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"),
        ),
        ("instance-profile",),
        (),
    ),
    ("AllowSSMReadActions", ("ssm:GetParameter",), ("parameter",), ()),
    (
        "AllowInterruptionQueueActions",
        ("sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"),
        ("queue",),
        (),
    ),
    ("AllowZonalShiftStatusReadOnly", ("arc-zonal-shift:GetManagedResource",), ("*",), ()),
)
"""The statements that Karpenter publishes: name, actions, kinds of resources, condition keys
(cloudformation.yaml of its guide "Getting started", v1.14)."""

NOT_GIVEN = {
    *("ec2:DescribeCapacityReservations", "iam:CreateInstanceProfile", "iam:TagInstanceProfile"),
    *("iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"),
    *("ssm:GetParameter", "sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"),
    "arc-zonal-shift:GetManagedResource",
}


def build(**changes: Any) -> Recording:
    return record(lambda: Karpenter("karpenter", dataclasses.replace(ARGS, **changes)), EchoMocks())


def pod(built: Recording) -> Any:
    return built.one("Deployment").inputs["spec"]["template"]["spec"]


def settings(built: Recording) -> dict[str, str]:
    (container,) = pod(built)["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def gates(built: Recording) -> dict[str, str]:
    return dict(each.split("=") for each in settings(built)["FEATURE_GATES"].split(","))


def statements(**changes: Any) -> list[dict[str, Any]]:
    rights = dataclasses.replace(RIGHTS, **changes)
    context = AwsContext(*(pulumi.Output.from_input(each) for each in ("1", "aws", "us-east-1")))
    found: list[Any] = []

    def program() -> None:
        pulumi.Output.all(*iam_statements(rights, context)).apply(found.extend)

    record(program)
    return found


@pytest.fixture(scope="module")
def made() -> Recording:
    return build()


def kind_of(arn: str) -> str:
    return arn if arn == "*" else arn.split(":", 5)[5].partition("/")[0]


def keys_of(statement: Mapping[str, Any]) -> set[str]:
    return {key for operator in statement.get("Condition", {}).values() for key in operator}


RESERVED = {"reservation_ids": ["cr-0123456789abcdef0"]}


def test_each_right_is_one_that_karpenter_publishes_with_all_of_its_conditions() -> None:
    for statement in statements(**RESERVED):
        for action in statement["Action"]:
            for arn in statement["Resource"]:
                allowing = [
                    name
                    for name, actions, kinds, keys in PUBLISHED
                    if action in actions and kind_of(arn) in kinds and set(keys) <= keys_of(statement)
                ]
                assert allowing, (action, arn, keys_of(statement))


def test_rights_that_are_published_and_not_given_are_known() -> None:
    published = {action for _, actions, _, _ in PUBLISHED for action in actions}
    given = {action for statement in statements() for action in statement["Action"]}
    assert published - given == NOT_GIVEN
    with_reservations = {action for statement in statements(**RESERVED) for action in statement["Action"]}
    assert with_reservations - given == {"ec2:DescribeCapacityReservations"}


def test_spot_instances_bring_the_right_to_make_their_linked_role() -> None:
    with_spot = [each for each in statements(spot=True) if each not in statements()]
    (made,) = with_spot
    assert made["Action"] == ["iam:CreateServiceLinkedRole"]
    assert made["Condition"] == {"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}}


def test_conditions_name_the_cluster() -> None:
    values = [
        value
        for statement in statements()
        for operator, keys in statement.get("Condition", {}).items()
        for key, value in keys.items()
        if operator.startswith("StringEquals") and key.endswith("eks-cluster-name")
    ]
    assert set(values) == {"atlas"}
    tags = [keys_of(each) for each in statements() if "ec2:TerminateInstances" in each["Action"]]
    assert tags == [{f"aws:ResourceTag/{OWNED}", f"aws:ResourceTag/{POOL}"}]


def test_instances_start_in_the_given_places_only() -> None:
    launching = next(each for each in statements() if "Condition" not in each)
    places = {arn for arn in launching["Resource"] if kind_of(arn) in ("subnet", "security-group")}
    assert places == {
        "arn:aws:ec2:us-east-1:1:subnet/subnet-a",
        "arn:aws:ec2:us-east-1:1:subnet/subnet-b",
        "arn:aws:ec2:us-east-1:1:security-group/sg-nodes",
    }
    assert not any(kind_of(arn) == "capacity-reservation" for arn in launching["Resource"])


def test_instances_start_in_the_given_reservations_also_of_another_account() -> None:
    launching = next(each for each in statements(**RESERVED) if "Condition" not in each)
    found = [arn for arn in launching["Resource"] if kind_of(arn) == "capacity-reservation"]
    assert found == ["arn:aws:ec2:us-east-1:*:capacity-reservation/cr-0123456789abcdef0"]


def test_stop_denies_every_action_that_launches_and_nothing_else() -> None:
    (denial,) = stop_statements("sweep")
    launching = {
        action
        for statement in statements()
        for action in statement["Action"]
        if action in ("ec2:RunInstances", "ec2:CreateFleet")
    }
    assert set(denial["Action"]) == launching
    assert denial["Condition"] == {"StringEquals": {"aws:RequestTag/gpufleet:node-group": "sweep"}}


def test_rules_of_the_policy_pack_accept_it(made: Recording) -> None:
    objects = tuple(
        {"type": each.type, "props": dict(each.inputs)}
        for each in made
        if each.type.startswith("kubernetes:")
    )
    found = [
        f"{rule.name}: {violation.message}"
        for rule in load_rules(ROOT)
        if rule.name.startswith(("kubernetes-", "judged-"))
        for violation in evaluate(rule, Example(objects))
    ]
    assert found == []


def test_it_runs_on_system_nodes_only(made: Recording) -> None:
    spec = made.one("Deployment").inputs["spec"]
    assert spec["replicas"] == 2
    assert pod(made)["nodeSelector"] == {"gpufleet.io/node-group": "system"}
    assert pod(made)["priorityClassName"] == "system-cluster-critical"
    budget = made.one("PodDisruptionBudget").inputs["spec"]
    assert (budget["maxUnavailable"], budget["selector"]) == (1, spec["selector"])


def test_pods_have_no_rights_on_their_node(made: Recording) -> None:
    (container,) = pod(made)["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod(made)["securityContext"]["runAsNonRoot"] is True
    assert made.one("ServiceAccount").inputs["automountServiceAccountToken"] is False


def test_it_reads_no_secret_and_writes_what_it_must(made: Recording) -> None:
    rules = made.one("ClusterRole").inputs["rules"]
    writing = {
        kind for rule in rules for kind in rule["resources"] if set(rule["verbs"]) - {"get", "list", "watch"}
    }
    assert {each.partition("/")[0] for each in writing} == {
        *("nodepools", "nodeclaims", "ec2nodeclasses", "nodes", "pods", "events"),
    }
    everything = [*rules, *made.one("Role").inputs["rules"]]
    assert not {kind for rule in everything for kind in rule["resources"]} & {"secrets", "*"}


def test_features_that_it_must_not_use_are_off(made: Recording) -> None:
    assert set(gates(made).values()) == {"false"}
    assert gates(build(static_capacity=True)) == {**gates(made), "StaticCapacity": "true"}
    assert gates(build(reserved_capacity=True)) == {**gates(made), "ReservedCapacity": "true"}
    # The handler of notices drains nodes: two that do are one too many.
    assert "INTERRUPTION_QUEUE" not in settings(made)


def test_it_knows_its_cluster(made: Recording) -> None:
    expected = {
        "CLUSTER_NAME": "atlas-prod-use1",
        "CLUSTER_ENDPOINT": "https://abc.eks.test",
        "AWS_REGION": "us-east-1",
        "SYSTEM_NAMESPACE": "kube-system",
    }
    assert expected.items() <= settings(made).items()


def test_definitions_are_those_of_its_version_and_come_first(made: Recording) -> None:
    release = made.one("Release")
    assert release.inputs["chart"] == "oci://public.ecr.aws/karpenter/karpenter-crd"
    assert release.inputs["version"] == "1.14.1"
    assert release.urn in made.one("Deployment").dependencies
