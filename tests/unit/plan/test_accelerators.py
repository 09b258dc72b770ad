"""Neuron devices in the plan: labels, taints, resources, interfaces, and what the cluster runs for them."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.accelerators import AcceleratorPlan
from gpufleet.plan.models import CloudSitePlan, FleetPlan
from tests.unit.plan.fleets import CATALOG, cloud_site, cost_of, group, on_demand, spec

LOCK = CATALOG.locks["2026.11"]


def plan(*instances: str, scheduler: str = "kubernetes", **settings: Any) -> FleetPlan:
    groups = [group(f"g{at}", name, on_demand(0, 2)) for at, name in enumerate(instances)]
    more = {"kubernetes": {"version": "1.35"} | settings} if scheduler == "kubernetes" else {}
    return build_plan(spec(cloud=[cloud_site(*groups, scheduler=scheduler, **more)]), CATALOG)


def only(made: FleetPlan) -> CloudSitePlan:
    (site,) = made.cloud
    return site


def test_pods_request_neuron_devices_of_nodes_with_their_label_and_taint() -> None:
    (found,) = only(plan("trn1.32xlarge")).node_groups
    assert found.accelerator == AcceleratorPlan(
        "neuron", "Trainium", 16, 32.0, 2, resource="aws.amazon.com/neuron", gres=""
    )
    assert found.labels["gpufleet.io/neuron"] == "trainium"
    assert "gpufleet.io/gpu" not in found.labels
    assert [(taint.key, taint.effect) for taint in found.taints] == [("aws.amazon.com/neuron", "NoSchedule")]
    assert (found.gpu, found.gpus_per_node) == ("", 0)


def test_gpus_keep_their_label_taint_and_count() -> None:
    (found,) = only(plan("p5.48xlarge")).node_groups
    assert found.accelerator is not None
    assert (found.accelerator.kind, found.accelerator.resource) == ("gpu", "nvidia.com/gpu")
    assert found.labels["gpufleet.io/gpu"] == "h100"
    assert "gpufleet.io/neuron" not in found.labels
    assert (found.gpu, found.gpus_per_node) == ("H100", 8)


@pytest.mark.parametrize(
    ("name", "gres"),
    [
        ("trn2.48xlarge", "neuron:trainium2:16"),
        ("inf2.24xlarge", "neuron:inferentia2:6"),
        ("p5.48xlarge", "gpu:h100:8"),
        ("g6f.large", ""),
    ],
)
def test_slurm_node_has_a_generic_resource_and_no_taint(name: str, gres: str) -> None:
    (found,) = only(plan(name, scheduler="slurm")).node_groups
    assert found.accelerator is not None
    assert (found.accelerator.gres, found.accelerator.resource) == (gres, "")
    assert found.taints == ()


def test_neuron_devices_do_not_count_as_gpus() -> None:
    made = plan("trn1.32xlarge", "inf2.xlarge", "p5.48xlarge")
    assert made.gpus_at_maximum == 16
    assert made.neuron_devices_at_maximum == 34
    assert plan("p5.48xlarge").neuron_devices_at_maximum == 0


def test_cluster_runs_neurons_software_only_where_a_group_has_devices() -> None:
    settings = only(plan("trn1.32xlarge")).kubernetes
    assert settings is not None
    assert settings.neuron is not None
    assert settings.neuron.version == LOCK.neuron == "2.31.0.0"
    assert settings.neuron.scheduler_image == "registry.k8s.io/kube-scheduler:v1.35.4"
    without = only(plan("trn1.32xlarge", neuron_scheduler=False)).kubernetes
    assert without is not None
    assert without.neuron is not None
    assert without.neuron.scheduler_image == ""
    other = only(plan("p5.48xlarge")).kubernetes
    assert other is not None
    assert other.neuron is None


@pytest.mark.parametrize("version", LOCK.kubernetes)
def test_scheduler_has_the_minor_version_of_the_cluster(version: str) -> None:
    settings = only(plan("trn1.32xlarge", version=version)).kubernetes
    assert settings is not None
    assert settings.neuron is not None
    assert settings.neuron.scheduler_image.startswith(f"registry.k8s.io/kube-scheduler:v{version}.")


@pytest.mark.parametrize(
    ("name", "efa"),
    [("trn1.32xlarge", 8), ("trn1n.32xlarge", 16), ("trn2.48xlarge", 16), ("trn2u.48xlarge", 16)],
)
def test_every_network_card_of_a_trainium_node_has_one_efa_interface(name: str, efa: int) -> None:
    region = "us-east-1" if name.startswith("trn1") else "us-east-2"
    made = build_plan(
        spec(
            cloud=[
                cloud_site(
                    group("train", name, on_demand(0, 1), network="efa"),
                    region=region,
                    zones=[f"{region}a"],
                )
            ]
        ),
        CATALOG,
    )
    primary, *others = only(made).node_groups[0].network_interfaces
    assert (primary.network_card_index, primary.device_index, primary.interface_type) == (0, 0, "interface")
    assert {each.interface_type for each in others} == {"efa-only"}
    assert [each.network_card_index for each in others] == list(range(efa))
    assert [each.device_index for each in others] == [1, *[0] * (efa - 1)]


def test_price_of_neuron_nodes_is_known_or_said_to_be_unknown() -> None:
    lines = {
        line.owner: line
        for line in cost_of(plan("trn1.32xlarge", "inf1.xlarge", "trn2.48xlarge")).lines
        if line.kind == "compute" and line.owner.startswith("g")
    }
    assert str(lines["g0"].maximum) == "31390.0", "2 x 730 h x 21.50 USD"
    assert lines["g1"].maximum is not None
    assert lines["g2"].maximum is None
    assert "no on-demand price of trn2.48xlarge" in lines["g2"].reason


def test_price_of_graviton_system_nodes_is_that_of_their_type() -> None:
    made = cost_of(plan(system_nodes={"instance_types": ["m8g.xlarge"]}))
    (line,) = (each for each in made.lines if each.owner == "system" and each.kind == "compute")
    assert "m8g.xlarge" in line.what
    assert line.expected is not None
    assert not line.estimated
