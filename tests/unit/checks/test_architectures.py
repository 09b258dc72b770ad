"""Processors and images: Graviton where there is an image for it, and no image for other processors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import Judge
from tests.unit.checks.test_networks import SLURM, second_site

SYSTEM = "cloud.0.kubernetes.system_nodes"
_EKS = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023"


def _image(arch: str, variant: str) -> str:
    name = f"amazon-eks-node-al2023-{arch}-{variant}-1.35-v20260714"
    return f"{_EKS}/{arch}/{variant}/{name}/image_id"


def _group(name: str, **changes: Any) -> dict[str, Any]:
    group = {"name": "other", "instance_types": [name], "capacity": {"on_demand": {"max": 1}}}
    return {"cloud.0.node_groups.+": group | changes}


NEURON_SITE = second_site("10.41.0.0/16") | {"node_groups": list(_group("trn1.32xlarge").values())}


@pytest.mark.parametrize("types", [["m7g.xlarge"], ["m8g.large", "m7g.large"], ["m7i.xlarge", "m7i.large"]])
def test_system_nodes_of_one_architecture_pass(judge: Judge, types: list[str]) -> None:
    assert judge({SYSTEM: {"instance_types": types}}).rules == set()


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (["m7i.xlarge", "m7g.xlarge"], "m7g.xlarge is arm64 and m7i.xlarge is x86_64: no image runs on both"),
        (["m8g.xlarge", "m7i.xlarge"], "m7i.xlarge is x86_64 and m8g.xlarge is arm64: no image runs on both"),
    ],
)
def test_system_nodes_of_two_architectures_are_refused(judge: Judge, types: list[str], message: str) -> None:
    finding = judge({SYSTEM: {"instance_types": types}}).only("system-nodes-architecture")
    assert finding.field == "cloud[0].kubernetes.system_nodes.instance_types[1]"
    assert finding.message == message


@pytest.mark.parametrize("name", ["m99g.xlarge", "c99gn.large", "a1.large"])
def test_graviton_type_that_the_catalog_lacks_is_refused(judge: Judge, name: str) -> None:
    (finding,) = judge({SYSTEM: {"instance_types": [name]}}).of("system-nodes-architecture")
    assert "image for x86_64" in finding.message
    assert "catalog refresh" in finding.remedy


def test_other_unknown_type_of_system_nodes_is_not_taken_for_graviton(judge: Judge) -> None:
    reported = judge({SYSTEM: {"instance_types": ["g99.xlarge"]}})
    assert not reported.of("system-nodes-architecture")


def test_catalog_says_more_than_the_name_of_a_type(judge: Judge) -> None:
    judge.change_catalog("instances", **{"m7i.xlarge": {"architectures": ("arm64",)}})
    finding = judge({SYSTEM: {"instance_types": ["m7g.xlarge", "m7i.xlarge", "m7i.large"]}}).only(
        "system-nodes-architecture"
    )
    assert finding.message == "m7i.large is x86_64 and m7g.xlarge is arm64: no image runs on both"


def test_group_without_accelerators_can_be_graviton_on_kubernetes_only(judge: Judge) -> None:
    assert judge(_group("m7g.xlarge")).rules == set()
    (finding,) = judge(SLURM | _group("m7g.xlarge")).of("architecture-unsupported")
    assert "nodes of Slurm are for x86_64" in finding.message


def test_graviton_with_gpus_is_refused(judge: Judge) -> None:
    finding = judge(_group("g5g.xlarge")).only("architecture-unsupported")
    assert finding.field == "cloud[0].node_groups[4].instance_types[0]"
    assert "nodes with accelerators are for x86_64" in finding.message


def test_graviton_with_an_accelerator_that_was_not_read_is_refused(judge: Judge) -> None:
    judge.change_catalog("instances", **{"m7g.xlarge": {"unverified": ("accelerator",)}})
    (finding,) = judge(_group("m7g.xlarge")).of("architecture-unsupported")
    assert "nodes with accelerators are for x86_64" in finding.message


@pytest.mark.parametrize(
    ("name", "image", "message"),
    [
        ("m7g.xlarge", _image("x86_64", "standard"), "is for x86_64, and m7g.xlarge is arm64"),
        ("m7i.xlarge", _image("arm64", "standard"), "is for arm64, and m7i.xlarge is x86_64"),
        (
            "g6.xlarge",
            "/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-ubuntu-22.04/20260403/ami-id",
            "is for arm64, and g6.xlarge is x86_64",
        ),
    ],
)
def test_image_for_other_processors_is_refused(judge: Judge, name: str, image: str, message: str) -> None:
    finding = judge(_group(name, image=image)).only("image-architecture")
    assert finding.field == "cloud[0].node_groups[4].image"
    assert message in finding.message


@pytest.mark.parametrize(
    ("name", "variant", "message"),
    [
        ("trn1.32xlarge", "nvidia", "has NVIDIA's driver, and trn1.32xlarge has Trainium"),
        ("trn1.32xlarge", "standard", "has no driver, and trn1.32xlarge has Trainium"),
        ("g6.xlarge", "neuron", "has Neuron's driver, and g6.xlarge has L4"),
        ("m7i.xlarge", "nvidia", "has NVIDIA's driver, and m7i.xlarge has no accelerator"),
    ],
)
def test_image_without_the_devices_driver_is_refused(
    judge: Judge, name: str, variant: str, message: str
) -> None:
    finding = judge(_group(name, image=_image("x86_64", variant))).only("image-driver")
    assert message in finding.message


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("trn1.32xlarge", _image("x86_64", "neuron")),
        ("g6.xlarge", _image("x86_64", "nvidia")),
        ("m7g.xlarge", _image("arm64", "standard")),
        ("trn1.32xlarge", "ami-0123456789abcdef0"),
        ("m7g.xlarge", "/golden/x86_64/base:7"),
    ],
)
def test_fitting_image_and_one_of_unknown_processors_pass(judge: Judge, name: str, image: str) -> None:
    assert judge(_group(name, image=image)).rules == set()


def test_image_of_a_type_with_unknown_devices_is_not_judged(judge: Judge) -> None:
    image = _image("x86_64", "nvidia")
    assert judge(_group("m7i.xlarg", image=image)).rules == {"instance-type-known"}
    judge.change_catalog("instances", **{"m7i.xlarge": {"unverified": ("accelerator",)}})
    assert judge(_group("m7i.xlarge", image=image)).of("image-driver") == []


def test_neuron_scheduler_on_graviton_is_refused(judge: Judge) -> None:
    changes = _group("trn1.32xlarge") | {SYSTEM: {"instance_types": ["m7g.xlarge"]}}
    finding = judge(changes).only("neuron-scheduler-architecture")
    assert finding.field == "cloud[0].kubernetes.neuron_scheduler"
    assert judge(changes | {"cloud.0.kubernetes.neuron_scheduler": False}).rules == set()
    assert judge({SYSTEM: {"instance_types": ["m7g.xlarge"]}, "cloud.+": NEURON_SITE}).rules == set()


def test_neuron_quota_above_the_site_is_a_warning(judge: Judge) -> None:
    quota = {"cloud.0.kubernetes.teams.0.neuron_devices": 17}
    finding = judge(quota | _group("trn1.32xlarge")).only("team-neuron-quota", "warning")
    assert finding.field == "cloud[0].kubernetes.teams[0].neuron_devices"
    assert "at most 16" in finding.message
    assert "leave `neuron_devices` out" in judge(quota).only("team-neuron-quota", "warning").remedy
    fits = {"cloud.0.kubernetes.teams.0.neuron_devices": 32}
    assert judge(fits | _group("trn1.32xlarge", capacity={"on_demand": {"max": 2}})).rules == set()


def test_neuron_quota_of_a_site_with_an_unknown_type_is_not_judged(judge: Judge) -> None:
    quota = {"cloud.0.kubernetes.teams.0.neuron_devices": 17}
    assert "team-neuron-quota" in judge(quota | _group("trn1.32xlarge")).rules
    assert "team-neuron-quota" not in judge(quota | _group("trn9.32xlarge")).rules
    before = {"cloud.0.node_groups.0.instance_types": ["trn9.32xlarge"]}
    assert "team-neuron-quota" not in judge(quota | before).rules


def test_neuron_images_need_a_way_to_the_public_registry(judge: Judge) -> None:
    reported = judge(_group("trn1.32xlarge") | {"cloud.0.network.nat": "none"}).of("registry-unreachable")
    assert any("nodes of other cannot pull Neuron's from public.ecr.aws" in each.message for each in reported)
