"""The autoscaler of a site: its release, its groups, and what it knows of nodes before they exist."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan.models import CloudSitePlan, FleetPlan
from tests.unit.plan.fleets import CATALOG, block, group, odcr, on_demand, plan_of, spot

TEMPLATE = "k8s.io/cluster-autoscaler/node-template"


def plan(*groups: dict[str, Any], autoscaler: dict[str, Any] | None, **site: Any) -> CloudSitePlan:
    return _plan(*groups, autoscaler=autoscaler, **site).cloud[0]


def _plan(*groups: dict[str, Any], autoscaler: dict[str, Any] | None, **site: Any) -> FleetPlan:
    version = site.pop("version", "1.35")
    settings: dict[str, Any] = {"version": version, "private_cidrs": ["10.60.0.0/24"]}
    if autoscaler is not None:
        settings["autoscaler"] = autoscaler
    return plan_of(*groups, scheduler="kubernetes", kubernetes=settings, **site)


@pytest.mark.parametrize("version", CATALOG.lock("2026.11").kubernetes)
def test_image_has_the_minor_version_of_the_cluster(version: str) -> None:
    found = plan(autoscaler={}, version=version).kubernetes
    assert found is not None
    assert found.autoscaler is not None
    assert found.autoscaler.image.startswith(f"registry.k8s.io/autoscaling/cluster-autoscaler:v{version}.")


@pytest.mark.parametrize("autoscaler", [None, {"kind": "none"}])
def test_without_one_nothing_is_planned(autoscaler: dict[str, Any] | None) -> None:
    site = plan(group("sweep", "g6.xlarge", spot(0, 4)), autoscaler=autoscaler)
    assert site.kubernetes is not None
    assert (site.kubernetes.autoscaler, site.kubernetes.scales_system_nodes) == (None, False)
    assert site.node_groups[0].autoscaled is None


def test_groups_whose_size_belongs_to_something_else_are_not_its_own() -> None:
    site = plan(
        group("scaled", "g6.xlarge", on_demand(0, 2)),
        group("steady", "g6.xlarge", on_demand(2, 2)),
        group("steady-spot", "g6.xlarge", spot(2, 2, "on-demand")),
        group("spot-alone", "g6.xlarge", spot(2, 2)),
        group("drawn", "g6.xlarge", on_demand(0, 2)),
        group("undrawn", "g6.xlarge", on_demand(0, 2)),
        group("held", "g6.xlarge", odcr(1), zones=["us-east-1a"]),
        group("bought", "p5.48xlarge", block(1), zones=["us-east-1a"]),
        autoscaler={},
        ordered_capacity=[{"name": "order", "nodes": 2, "groups": ["drawn", "undrawn"]}],
    )
    found = {each.name for each in site.node_groups if each.autoscaled is not None}
    # A fixed spot group has a fallback that starts at zero.
    assert found == {"scaled", "steady-spot"}


def test_slurm_site_has_none() -> None:
    for settings in (None, {"autoscaler": {}}):
        found = plan_of(group("burst", "g6.xlarge", on_demand(0, 2)), kubernetes=settings)
        assert found.node_groups[0].autoscaled is None


def test_gpus_and_adapters_are_known_before_a_node_exists() -> None:
    (made,) = plan(
        group("train", "p5.48xlarge", on_demand(0, 2), zones=["us-east-1a"], network="efa"), autoscaler={}
    ).node_groups
    assert made.autoscaled is not None
    assert made.autoscaled.tags == {
        f"{TEMPLATE}/resources/ephemeral-storage": "170Gi",
        f"{TEMPLATE}/resources/nvidia.com/gpu": "8",
        f"{TEMPLATE}/resources/vpc.amazonaws.com/efa": "32",
    }
    assert made.autoscaled.node_labels == {"k8s.amazonaws.com/accelerator": "nvidia-h100"}
    assert made.autoscaled.scaling_tags == {}


def test_fraction_of_a_gpu_is_one_device() -> None:
    (made,) = plan(group("tiny", "g6f.xlarge", on_demand(0, 2)), autoscaler={}).node_groups
    assert made.autoscaled is not None
    assert made.autoscaled.tags[f"{TEMPLATE}/resources/nvidia.com/gpu"] == "1"


def test_neuron_nodes_have_no_label_of_gpus_and_stay_while_a_job_runs() -> None:
    """The label would keep them unready for ever: the autoscaler waits for GPUs only."""
    (made,) = plan(group("train", "trn1.32xlarge", on_demand(0, 2)), autoscaler={}).node_groups
    assert made.autoscaled is not None
    assert made.autoscaled.node_labels == {}
    assert made.autoscaled.tags[f"{TEMPLATE}/resources/aws.amazon.com/neuron"] == "16"
    options = f"{TEMPLATE}/autoscaling-options"
    assert made.autoscaled.scaling_tags == {
        f"{options}/scaledownutilizationthreshold": "0.001",
        f"{options}/ignoredaemonsetsutilization": "true",
    }


def test_taint_without_a_value_is_a_tag_of_the_group() -> None:
    taints = [{"key": "dedicated", "effect": "NoExecute"}, {"key": "night", "value": "yes"}]
    (made,) = plan(group("train", "g6.xlarge", on_demand(0, 2), taints=taints), autoscaler={}).node_groups
    assert made.autoscaled is not None
    assert made.autoscaled.scaling_tags == {f"{TEMPLATE}/taint/dedicated": ":NoExecute"}


def test_system_nodes_scale_if_their_number_can_change() -> None:
    found = plan(autoscaler={}).kubernetes
    assert found is not None
    assert found.scales_system_nodes
    settings = {"private_cidrs": ["10.60.0.0/24"], "autoscaler": {}, "system_nodes": {"min": 2, "max": 2}}
    fixed = plan_of(scheduler="kubernetes", kubernetes=settings).cloud[0].kubernetes
    assert fixed is not None
    assert not fixed.scales_system_nodes


def test_settings_of_the_fleet_file_arrive() -> None:
    wanted = {"scale_down": False, "scale_down_after": "2 h", "expander": "priority"}
    found = plan(autoscaler=wanted).kubernetes
    assert found is not None
    assert found.autoscaler is not None
    made = found.autoscaler
    assert (made.scale_down, made.scale_down_after_s, made.expander) == (False, 7200, "priority")


def test_nodes_without_devices_have_only_their_disk() -> None:
    (made,) = plan(group("cpu", "m7i.xlarge", on_demand(0, 2)), autoscaler={}).node_groups
    assert made.autoscaled is not None
    assert list(made.autoscaled.tags) == [f"{TEMPLATE}/resources/ephemeral-storage"]
    assert (made.autoscaled.node_labels, made.autoscaled.scaling_tags) == ({}, {})
