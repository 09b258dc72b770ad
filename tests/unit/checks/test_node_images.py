"""Images of cloud nodes that the checks refuse."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.unit.checks.fleets import GONE, Judge
from tests.unit.checks.test_networks import SLURM

GROUP = "cloud.0.node_groups.0"
IMAGES = "software.node_images"
RELEASE = (
    "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia"
    "/amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260714/image_id"
)


def test_unknown_release_is_refused_with_the_known_ones(judge: Judge) -> None:
    finding = judge({f"{IMAGES}.eks": "20260713"}).only("node-image-known")
    assert finding.field == f"{IMAGES}.eks"
    assert "did you mean '20260714'" in finding.remedy
    assert "node-image-known" in judge({**SLURM, f"{IMAGES}.slurm": "20200101"}).rules


def test_release_of_a_slurm_site_is_its_own(judge: Judge) -> None:
    (finding,) = judge({**SLURM, f"{IMAGES}.slurm": "20200101"}).of("node-image-known")
    assert (finding.field, finding.value) == (f"{IMAGES}.slurm", "20200101")
    assert "20260403" in finding.message + finding.remedy
    assert "node-image-known" not in judge({**SLURM, f"{IMAGES}.eks": "20260713"}).rules


def test_known_releases_of_the_channels_driver_pass(judge: Judge) -> None:
    assert judge({f"{IMAGES}.eks": "20260625"}).rules == set()


def test_release_that_no_site_uses_is_not_judged(judge: Judge) -> None:
    assert judge({f"{IMAGES}.slurm": "20200101"}).rules == set()


def test_release_is_one_for_the_sites_version_of_kubernetes(judge: Judge) -> None:
    changes = {"cloud.0.kubernetes.version": "1.36", f"{IMAGES}.eks": "20260505"}
    assert judge(changes).rules == {"node-image-known"}
    only = {"cloud.0.kubernetes.version": "1.34", f"{IMAGES}.eks": "20260107"}
    assert judge(only).rules == set()
    assert "node-image-driver" in judge({**only, "software.channel": "2026.08"}).rules


def test_release_of_a_site_without_settings_is_one_for_the_default_version(judge: Judge) -> None:
    changes = {"cloud.0.kubernetes": GONE, "cloud.0.node_groups.0.team": GONE}
    assert judge({**changes, f"{IMAGES}.eks": "20260714"}).rules == set()
    assert judge({**changes, f"{IMAGES}.eks": "20260107"}).rules == {"node-image-known"}


def test_release_for_an_unknown_version_of_kubernetes_is_not_judged(judge: Judge) -> None:
    changes = {"cloud.0.kubernetes.version": "1.99", f"{IMAGES}.eks": "20260714"}
    assert "node-image-known" not in judge(changes).rules


def test_release_with_another_driver_branch_is_a_warning(judge: Judge) -> None:
    found = judge({**SLURM, f"{IMAGES}.slurm": "20260929"}).of("node-image-driver")
    assert [(each.severity, each.field) for each in found] == [("warning", f"{IMAGES}.slurm")]
    assert "595.91.07" in found[0].message and "580.159.03" in found[0].message


def test_driver_branch_of_an_eks_release_is_judged_by_the_channel(judge: Judge) -> None:
    found = judge({"software.channel": "2026.08", f"{IMAGES}.eks": "20260714"}).of("node-image-driver")
    assert [(each.severity, each.field) for each in found] == [("warning", f"{IMAGES}.eks")]


def test_driver_of_a_release_that_is_not_known_is_not_judged(judge: Judge) -> None:
    images = {
        key: image.model_copy(update={"driver": None}) for key, image in judge.catalog.node_images.items()
    }
    judge.catalog = structs.replace(judge.catalog, node_images=images)
    assert judge({**SLURM, f"{IMAGES}.slurm": "20260929"}).of("node-image-driver") == []


def test_driver_in_an_unknown_channel_is_not_judged(judge: Judge) -> None:
    changes = {"software.channel": "2031.01", f"{IMAGES}.eks": "20260714"}
    assert judge(changes).rules == {"channel-known"}


@pytest.mark.parametrize(
    "image",
    [
        "/golden/gpu",
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
        "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
        "/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id",
    ],
)
def test_parameter_whose_value_moves_is_refused(judge: Judge, image: str) -> None:
    assert judge({f"{GROUP}.image": image}).only("image-stays").field == "cloud[0].node_groups[0].image"


@pytest.mark.parametrize(
    "image",
    [
        "ami-0123456789abcdef0",
        "/golden/gpu:7",
        RELEASE,
    ],
)
def test_image_that_stays_what_it_is_passes(judge: Judge, image: str) -> None:
    assert judge({f"{GROUP}.image": image}).rules == set()
