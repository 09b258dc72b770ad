"""Shared and divided GPUs of cloud node groups: resources, labels, and tags for the autoscaler."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.gpu_sharing import (
    GpuSharingPlan,
    config_name,
    config_text,
    mig_gpu_of,
    plan_gpu_sharing,
    resource_name,
    share_resources,
)
from gpufleet.plan.models import NodeGroupPlan
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, spec

SLICED = {"time_slicing": {"replicas": 4}}
MPS = {"mps": {"replicas": 2}}
TEMPLATE = "k8s.io/cluster-autoscaler/node-template"


def planned(instance: str, *, kubernetes: dict[str, Any] | None = None, **settings: Any) -> NodeGroupPlan:
    made = group("g", instance, on_demand(0, 2)) | settings
    site = cloud_site(made, scheduler="kubernetes", kubernetes={"version": "1.35"} | (kubernetes or {}))
    (found,) = build_plan(spec(cloud=[site]), CATALOG).cloud[0].node_groups
    return found


def sharing_of(instance: str, **settings: Any) -> GpuSharingPlan:
    found = planned(instance, **settings).gpu_sharing
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("profile", "shared", "name"),
    [
        (None, False, "nvidia.com/gpu"),
        (None, True, "nvidia.com/gpu.shared"),
        ("1g.10gb", False, "nvidia.com/mig-1g.10gb"),
        ("1g.10gb+me", True, "nvidia.com/mig-1g.10gb.me.shared"),
    ],
)
def test_fraction_of_a_gpu_has_its_own_resource_name(profile: str | None, shared: bool, name: str) -> None:
    assert resource_name(mig_profile=profile, shared=shared) == name


def test_whole_gpus_have_no_sharing_and_no_label() -> None:
    found = planned("p5.48xlarge")
    assert found.gpu_sharing is None
    assert not [key for key in found.labels if "sharing" in key or "nvidia.com" in key]
    assert share_resources([found]) == []
    sliced, parts = planned("p5.48xlarge", gpu_sharing=SLICED), planned("p5.48xlarge", mig_profile="1g.10gb")
    assert share_resources([sliced, found, parts, sliced]) == [
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.10gb",
    ]


@pytest.mark.parametrize(
    ("settings", "resource", "per_gpu"),
    [
        ({"gpu_sharing": SLICED}, "nvidia.com/gpu.shared", 4),
        ({"gpu_sharing": MPS}, "nvidia.com/gpu.shared", 2),
        ({"mig_profile": "1g.10gb"}, "nvidia.com/mig-1g.10gb", 7),
        ({"mig_profile": "3g.40gb"}, "nvidia.com/mig-3g.40gb", 2),
        ({"mig_profile": "1g.10gb+me", "gpu_sharing": SLICED}, "nvidia.com/mig-1g.10gb.me.shared", 4),
    ],
)
def test_pods_request_shares_of_a_gpu(settings: dict[str, Any], resource: str, per_gpu: int) -> None:
    found = sharing_of("p5.48xlarge", **settings)
    assert (found.resource, found.per_gpu) == (resource, per_gpu)


def test_as_many_instances_as_fit_on_a_gpu_of_this_memory() -> None:
    """A100 has 40 GB in p4d and 80 GB in p4de: slices of the same memory differ in number."""
    assert sharing_of("p4d.24xlarge", mig_profile="1g.10gb").per_gpu == 4
    assert sharing_of("p4de.24xlarge", mig_profile="1g.10gb").per_gpu == 7


def test_nodes_have_the_label_that_their_gpu_stack_reads() -> None:
    own = planned("p5.48xlarge", gpu_sharing=SLICED).labels
    assert own["gpufleet.io/gpu-sharing"] == "time-slicing-4"
    assert not any(key.startswith("nvidia.com/") for key in own)
    site = cloud_site(
        group("g", "p5.48xlarge", on_demand(0, 2), gpu_sharing=SLICED),
        scheduler="kubernetes",
        kubernetes=None,
    )
    (plain,) = build_plan(spec(cloud=[site]), CATALOG).node_groups
    assert plain.labels["gpufleet.io/gpu-sharing"] == "time-slicing-4"
    operator = {"gpu_stack": "gpu-operator"}
    both = {"gpu_sharing": SLICED, "mig_profile": "1g.10gb+me"}
    labels = planned("p5.48xlarge", kubernetes=operator, **both).labels
    assert labels["nvidia.com/device-plugin.config"] == "time-slicing-4-1g.10gb.me"
    assert labels["nvidia.com/mig.config"] == "all-1g.10gb.me"
    assert "gpufleet.io/gpu-sharing" not in labels
    divided = planned("p5.48xlarge", kubernetes=operator, mig_profile="1g.10gb").labels
    assert "nvidia.com/device-plugin.config" not in divided


@pytest.mark.parametrize(
    ("kind", "key", "fails"), [("time_slicing", "timeSlicing", True), ("mps", "mps", None)]
)
def test_a_share_never_counts_as_a_gpu(kind: Any, key: str, fails: bool | None) -> None:
    shared = json.loads(config_text(kind, 4, None))["sharing"][key]
    assert shared["renameByDefault"] is True
    assert shared["resources"] == [{"name": "nvidia.com/gpu", "replicas": 4}]
    assert shared.get("failRequestsGreaterThanOne") is fails


def test_autoscaler_knows_the_shares_of_a_node_that_does_not_exist() -> None:
    found = planned("p5.48xlarge", kubernetes={"autoscaler": {}}, gpu_sharing=SLICED).autoscaled
    assert found is not None
    assert found.tags[f"{TEMPLATE}/resources/nvidia.com/gpu"] == "0"
    assert found.tags[f"{TEMPLATE}/resources/nvidia.com/gpu.shared"] == "32"
    # With the label of whole GPUs the node would never be ready.
    assert found.node_labels == {}
    assert found.scaling_tags[f"{TEMPLATE}/autoscaling-options/scaledownutilizationthreshold"] == "0.001"


def test_configuration_of_whole_gpus_shares_nothing() -> None:
    assert json.loads(config_text("none", 1, None)) == {"version": "v1"}
    assert config_name("none", 1, "1g.10gb") == "default"


def test_profile_of_a_gpu_that_cannot_be_divided_is_one_device() -> None:
    """A check refuses it; the plan is for its message."""
    found = plan_gpu_sharing(CATALOG.instances["g6.xlarge"], None, "1g.5gb")
    assert found is not None and found.per_gpu == 1


def test_fraction_of_a_gpu_cannot_be_divided() -> None:
    whole = CATALOG.instances["p5.48xlarge"]
    assert whole.accelerator is not None and mig_gpu_of(whole) is not None
    part = whole.accelerator.model_copy(update={"count": 0})
    assert mig_gpu_of(whole.model_copy(update={"accelerator": part})) is None


def test_gpu_of_unknown_memory_and_no_gpu_cannot_be_divided() -> None:
    whole = CATALOG.instances["p5.48xlarge"]
    assert whole.accelerator is not None
    unknown = whole.accelerator.model_copy(update={"memory_gib": None})
    assert mig_gpu_of(whole.model_copy(update={"accelerator": unknown})) is None
    assert mig_gpu_of(CATALOG.instances["m7i.xlarge"]) is None
