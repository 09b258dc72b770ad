"""The autoscaler's manifests: two pods with few rights, and the flags by which it decides."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pulumi
import pytest
import yaml

from gpufleet.components.base import AwsContext
from gpufleet.components.cluster_autoscaler import (
    ClusterAutoscaler,
    ClusterAutoscalerArgs,
    iam_statements,
    priorities_text,
)
from gpufleet.policy.examples import evaluate
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Example
from tests.conftest import ROOT
from tests.unit.components.recording import EchoMocks, Recording, record

ARGS = ClusterAutoscalerArgs(
    cluster_name="atlas-prod-use1",
    region="us-east-1",
    image="registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.2",
    priorities={30: ["atlas-prod-use1-sweep"], 10: ["atlas-prod-use1-sweep-fallback"]},
    labels={"gpufleet.io/site": "use1"},
)


def build(**changes: Any) -> Recording:
    return record(lambda: ClusterAutoscaler("scaling", dataclasses.replace(ARGS, **changes)), EchoMocks())


def pod(built: Recording) -> Any:
    return built.one("Deployment").inputs["spec"]["template"]["spec"]


def flags(built: Recording) -> dict[str, str]:
    program, *given = pod(built)["containers"][0]["command"]
    assert program == "./cluster-autoscaler"
    return dict(each.removeprefix("--").split("=", 1) for each in given)


@pytest.fixture(scope="module")
def made() -> Recording:
    return build()


def test_rules_of_the_policy_pack_accept_it(made: Recording) -> None:
    objects = tuple(
        {"type": each.type, "props": dict(each.inputs)}
        for each in made
        if each.type.startswith("kubernetes:")
    )
    found = [
        f"{rule.name}: {violation.message}"
        for rule in load_rules(ROOT)
        if rule.name.startswith("kubernetes-")
        for violation in evaluate(rule, Example(objects))
    ]
    assert found == []


def test_two_pods_run_on_system_nodes_and_one_stays_while_nodes_are_drained(made: Recording) -> None:
    spec = made.one("Deployment").inputs["spec"]
    assert spec["replicas"] == 2
    assert pod(made)["nodeSelector"] == {"gpufleet.io/node-group": "system"}
    assert pod(made)["priorityClassName"] == "system-cluster-critical"
    assert flags(made)["leader-elect"] == "true"
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
    assert pod(made)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_it_reads_no_secret_and_writes_only_nodes_evictions_events_and_its_own_objects(
    made: Recording,
) -> None:
    rules = made.one("ClusterRole").inputs["rules"]
    writing = {
        kind: set(rule["verbs"]) - {"get", "list", "watch"}
        for rule in rules
        for kind in rule["resources"]
        if set(rule["verbs"]) - {"get", "list", "watch"}
    }
    assert writing == {"nodes": {"update"}, "pods/eviction": {"create"}, "events": {"create", "patch"}}
    everything = [*rules, *made.one("Role").inputs["rules"]]
    assert not {kind for rule in everything for kind in rule["resources"]} & {"secrets", "*"}
    assert made.one("ServiceAccount").inputs["automountServiceAccountToken"] is False


def test_it_finds_only_groups_with_the_tag_of_its_cluster(made: Recording) -> None:
    given = flags(made)
    assert given["node-group-auto-discovery"] == "asg:tag=gpufleet:autoscaler=atlas-prod-use1"
    assert "nodes" not in given


def test_gpu_nodes_with_work_stay(made: Recording) -> None:
    assert float(flags(made)["scale-down-gpu-utilization-threshold"]) < 1 / 512


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"expander": "least-waste,priority", "scale-down-enabled": "true"}),
        ({"expander": "priority"}, {"expander": "priority,least-waste"}),
        ({"scale_down": False}, {"scale-down-enabled": "false"}),
        (
            {"scale_down_after_s": 120},
            {"scale-down-unneeded-time": "120s", "scale-down-delay-after-add": "120s"},
        ),
        (
            {"scale_down_after_s": 3600},
            {"scale-down-unneeded-time": "3600s", "scale-down-delay-after-add": "600s"},
        ),
    ],
)
def test_settings_are_flags(changes: dict[str, Any], expected: dict[str, str]) -> None:
    assert expected.items() <= flags(build(**changes)).items()


def test_priorities_match_the_names_that_eks_gives() -> None:
    found = yaml.safe_load(priorities_text(ARGS.priorities))
    assert list(found) == [30, 10, 1]

    def priority(name: str) -> int:
        return max(
            number for number, patterns in found.items() if any(re.search(each, name) for each in patterns)
        )

    uuid = "9ac1b2c3-1111-2222-3333-444455556666"
    assert priority(f"eks-atlas-prod-use1-sweep-0a1b2c3-{uuid}") == 30
    assert priority(f"eks-atlas-prod-use1-sweep-fallback-0a1b2c3-{uuid}") == 10
    assert priority(f"eks-atlas-prod-use1-train-0a1b2c3-{uuid}") == 1


def test_role_changes_tagged_groups_of_its_site_only() -> None:
    context = AwsContext(*(pulumi.Output.from_input(each) for each in ("1", "aws", "us-east-1")))
    found: list[Any] = []

    def program() -> None:
        statements = pulumi.Output.all(*iam_statements("atlas-prod-use1", "atlas-prod-use1", context))
        statements.apply(found.extend)

    record(program)
    reading, describing, changing = found
    assert all(re.fullmatch(r"(autoscaling|ec2):Describe\w+", each) for each in reading["Action"])
    assert describing["Resource"] == ["arn:aws:eks:us-east-1:1:nodegroup/atlas-prod-use1/*/*"]
    assert changing["Resource"] == [
        "arn:aws:autoscaling:us-east-1:1:autoScalingGroup:*:autoScalingGroupName/eks-atlas-prod-use1-*"
    ]
    assert changing["Condition"] == {
        "StringEquals": {"aws:ResourceTag/gpufleet:autoscaler": "atlas-prod-use1"}
    }
    assert set(changing["Action"]) == {
        "autoscaling:SetDesiredCapacity",
        "autoscaling:TerminateInstanceInAutoScalingGroup",
    }
