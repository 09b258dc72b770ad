"""Images of node groups: pinned by the channel, by the fleet file, or the user's own."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.catalog.images import eks_image_parameter
from gpufleet.errors import InputError
from gpufleet.plan import build_plan
from gpufleet.plan.images import image_software, system_architecture
from gpufleet.plan.models import CloudSitePlan, NodeGroupPlan
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, spec

LOCK = CATALOG.locks["2026.11"]


def site(
    instance: str = "p5.48xlarge", *, software: dict[str, Any] | None = None, **changes: Any
) -> CloudSitePlan:
    own = changes.pop("group", {})
    made = spec(
        cloud=[cloud_site(group("a", instance, on_demand(0, 1), **own), **changes)],
        software={"channel": "2026.11"} | (software or {}),
    )
    (found,) = build_plan(made, CATALOG).cloud
    return found


def only(found: CloudSitePlan) -> NodeGroupPlan:
    (planned,) = found.node_groups
    return planned


def kubernetes(version: str) -> dict[str, Any]:
    return {"scheduler": "kubernetes", "kubernetes": {"version": version}}


@pytest.mark.parametrize("version", LOCK.kubernetes)
def test_eks_nodes_and_add_ons_are_those_of_the_channel_for_the_clusters_version(version: str) -> None:
    found = site(**kubernetes(version))
    locked = CATALOG.node_image("eks-al2023", LOCK.eks_image, version)
    assert only(found).image_release == locked.version
    assert locked.version.startswith(f"{version}.")
    assert found.kubernetes is not None
    assert found.kubernetes.system_nodes.image_release == locked.version
    assert found.kubernetes.addon_versions["kube-proxy"].startswith(f"v{version}.")
    assert set(found.kubernetes.addon_versions) == set(found.kubernetes.addons)


def test_plan_has_the_software_of_the_release_notes() -> None:
    software = only(site(**kubernetes("1.35"))).software
    assert software is not None
    assert software.driver == LOCK.eks_ami_driver
    assert software.in_containers == ("cuda", "nccl")
    assert software.efa == "kernel module 3.1.0"
    slurm = only(site()).software
    assert slurm is not None
    assert (slurm.driver, slurm.unverified) == ("580.126.09", ("driver",))
    assert (slurm.cuda, slurm.nccl) == (None, None)


def test_slurm_nodes_start_from_one_image_by_its_exact_name() -> None:
    found = only(site())
    assert found.image_kind == "ami-name"
    assert found.image.endswith(f"(Ubuntu 22.04) {LOCK.slurm_image}")


def test_fleet_file_names_other_releases() -> None:
    own = {"node_images": {"eks": "20260625", "slurm": "20260929"}}
    assert only(site(software=own, **kubernetes("1.35"))).image_release == "1.35.6-20260625"
    assert only(site(software=own)).image_release == "20260929"


def test_release_without_facts_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="no facts of release 20200101") as error:
        site(software={"node_images": {"eks": "20200101"}}, **kubernetes("1.35"))
    assert "20260714" in error.value.remedy


@pytest.mark.parametrize(
    ("image", "kind"),
    [("ami-0123456789abcdef0", "ami-id"), ("/golden/gpu:7", "parameter")],
)
@pytest.mark.parametrize("scheduler", ["kubernetes", "slurm"])
def test_image_of_the_users_own_has_no_release_and_unknown_software(
    image: str, kind: str, scheduler: str
) -> None:
    found = only(site(group={"image": image}, scheduler=scheduler))
    assert (found.image, found.image_kind, found.image_release, found.software) == (image, kind, "", None)


def test_neuron_devices_get_their_own_image_with_neurons_driver() -> None:
    neuron = only(site("trn1.32xlarge", **kubernetes("1.35")))
    assert neuron.image == "amazon-eks-node-al2023-x86_64-neuron-1.35-v20260714"
    assert neuron.software is not None
    assert (neuron.software.accelerator, neuron.software.driver) == ("neuron", "2.29.0.0")
    assert (neuron.software.cuda, neuron.software.nccl, neuron.software.in_containers) == (None, None, ())
    assert neuron.software.efa == "kernel module 3.1.0"
    slurm = only(site("trn1.32xlarge"))
    assert slurm.image == f"Deep Learning Base Neuron AMI (Ubuntu 22.04) {LOCK.slurm_neuron_image}"
    assert (slurm.image_kind, slurm.image_release) == ("ami-name", LOCK.slurm_neuron_image)
    assert slurm.software is not None
    assert slurm.software.driver is None, "no source has it"


def test_graviton_system_nodes_start_from_the_image_for_arm() -> None:
    settings = {"version": "1.35", "system_nodes": {"instance_types": ["m7g.xlarge", "m8g.xlarge"]}}
    found = site(scheduler="kubernetes", kubernetes=settings).kubernetes
    assert found is not None
    assert found.system_nodes.architecture == "arm64"
    assert found.system_nodes.image == "amazon-eks-node-al2023-arm64-standard-1.35-v20260714"
    plain = site(**kubernetes("1.35")).kubernetes
    assert plain is not None
    assert plain.system_nodes.architecture == "x86_64"
    assert plain.system_nodes.image == "amazon-eks-node-al2023-x86_64-standard-1.35-v20260714"


def test_nodes_without_accelerators_can_be_graviton() -> None:
    found = only(site("m7g.xlarge", **kubernetes("1.35")))
    assert (found.image, found.software) == ("amazon-eks-node-al2023-arm64-standard-1.35-v20260714", None)
    assert eks_image_parameter(found.image).startswith(
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard/"
    )


def test_image_of_a_release_has_one_public_parameter() -> None:
    name = only(site(**kubernetes("1.35"))).image
    assert name == "amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260714"
    assert eks_image_parameter(name) == (
        f"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/{name}/image_id"
    )
    with pytest.raises(ValueError, match="not the name of an image of EKS"):
        eks_image_parameter("ami-1")


def test_efa_of_an_image_is_its_kernel_module_or_the_installers_version() -> None:
    image = CATALOG.node_image("eks-al2023", LOCK.eks_image, "1.35")
    both = {"efa_module": "3.1.0", "efa_installer": "1.48.0"}
    shown = [
        image_software(image.model_copy(update={**dict.fromkeys(both), **some})).efa
        for some in (both, {"efa_installer": "1.48.0"}, {})
    ]
    assert shown == ["kernel module 3.1.0", "installer 1.48.0", None]


def test_image_of_neuron_nodes_is_shown_with_their_driver_and_without_cuda() -> None:
    versions = {"driver": "580.1", "neuron_driver": "2.2", "cuda": "13.0", "nccl": "2.28"}
    versions |= {"aws_ofi_nccl": "1.17", "container_toolkit": "1.18"}
    image = CATALOG.node_image("eks-al2023", LOCK.eks_image, "1.35").model_copy(update=versions)
    shown = [image_software(image, neuron=neuron) for neuron in (False, True)]
    assert [(each.driver, each.cuda, each.nccl) for each in shown] == [
        ("580.1", "13.0", "2.28"),
        ("2.2", None, None),
    ]
    assert [each.accelerator for each in shown] == ["gpu", "neuron"]
    assert [(each.aws_ofi_nccl, each.container_toolkit, each.in_containers) for each in shown] == [
        ("1.17", "1.18", ("cuda", "nccl")),
        (None, None, ()),
    ]


@pytest.mark.parametrize(
    ("names", "architecture"),
    [
        (["m7g.xlarge"], "arm64"),
        (["m7i.xlarge"], "x86_64"),
        (["m7g.xlarge", "m7i.xlarge"], "x86_64"),
        (["m7g.xlarge", "x99.unknown"], "arm64"),
        (["x99.unknown"], "x86_64"),
    ],
)
def test_system_nodes_have_the_architecture_of_their_known_types(names: list[str], architecture: str) -> None:
    assert system_architecture(names, CATALOG) == architecture
