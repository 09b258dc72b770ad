"""Groups of the autoscaler: which have its tag, and what it learns of nodes that do not exist yet."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpufleet.components.autoscaled_groups import AutoscaledArgs
from gpufleet.components.node_group import (
    EksNodesArgs,
    HeldSize,
    NodeGroup,
    NodeGroupArgs,
    OnDemandNodes,
    SpotNodes,
)
from tests.unit.components.recording import Recording, record

LABEL = "k8s.amazonaws.com/accelerator"
GPUS = "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu"
TAINT = "k8s.io/cluster-autoscaler/node-template/taint/dedicated"
SCALED = AutoscaledArgs(
    cluster="atlas", labels={LABEL: "nvidia-h100"}, tags={GPUS: "8"}, scaling_tags={TAINT: ":NoSchedule"}
)
BASE = NodeGroupArgs(
    instance_types=["p5.48xlarge"],
    min_size=0,
    max_size=2,
    subnet_ids=["subnet-a"],
    security_group_ids=["sg-cluster"],
    tags={"team": "ml"},
    eks=EksNodesArgs(cluster_name="atlas", node_role_arn="arn:node", autoscaled=SCALED),
)


def group(**changes: Any) -> Recording:
    return record(lambda: NodeGroup("train", dataclasses.replace(BASE, **changes)))


def tagged(built: Recording) -> set[tuple[str, str, str]]:
    return {
        (each.inputs["autoscalingGroupName"], each.inputs["tag"]["key"], each.inputs["tag"]["value"])
        for each in built.of("aws:autoscaling/tag:Tag")
    }


def test_group_that_can_change_has_the_tag_and_its_nodes_are_described() -> None:
    built = group()
    assert tagged(built) == {
        ("eks-train", "gpufleet:autoscaler", "atlas"),
        ("eks-train", TAINT, ":NoSchedule"),
    }
    assert {each.inputs["tag"]["propagateAtLaunch"] for each in built.of("Tag")} == {False}
    assert {each.name for each in built.of("Tag")} == {"train-autoscaler", "train-dedicated"}
    made = built.one("aws:eks/nodeGroup:NodeGroup").inputs
    assert made["labels"] == {LABEL: "nvidia-h100", "gpufleet.io/capacity": "on-demand"}
    assert made["tags"] == {GPUS: "8", "team": "ml", "Name": "train"}


def test_pulumi_leaves_the_size_to_the_autoscaler() -> None:
    assert group().one("aws:eks/nodeGroup:NodeGroup").ignore_changes == ("scalingConfig.desiredSize",)


def test_group_of_a_fixed_size_is_not_the_autoscalers() -> None:
    built = group(min_size=2)
    assert tagged(built) == set()
    made = built.one("aws:eks/nodeGroup:NodeGroup").inputs
    assert (LABEL in made["labels"], GPUS in made["tags"]) == (False, False)


def test_fallback_of_a_fixed_spot_group_is_the_autoscalers() -> None:
    built = group(min_size=2, capacity=SpotNodes(on_demand_fallback=True))
    assert {name for name, _, _ in tagged(built)} == {"eks-train-fallback"}
    labels = {each.name: LABEL in each.inputs["labels"] for each in built.of("aws:eks/nodeGroup:NodeGroup")}
    assert labels == {"train": False, "train-fallback": True}


def test_group_that_a_budget_stopped_stays_the_autoscalers() -> None:
    """The autoscaler reads the lower maximum in AWS; another tag would be another decision."""
    built = group(held={"train": HeldSize(max_size=1, desired_size=1)}, capacity=OnDemandNodes())
    assert ("eks-train", "gpufleet:autoscaler", "atlas") in tagged(built)


def test_without_an_autoscaler_nothing_changes() -> None:
    eks = dataclasses.replace(BASE.eks or EksNodesArgs(cluster_name="", node_role_arn=""), autoscaled=None)
    built = group(eks=eks)
    assert tagged(built) == set()
    made = built.one("aws:eks/nodeGroup:NodeGroup").inputs
    assert made["tags"] == {"team": "ml", "Name": "train"}
    assert made["labels"] == {"gpufleet.io/capacity": "on-demand"}
