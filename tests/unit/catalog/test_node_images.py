"""Releases of node images and versions of add-ons: complete for every channel, read as AWS writes them."""

from __future__ import annotations

import pytest

from gpufleet.catalog import load_catalog
from gpufleet.catalog.node_images import eks_images
from gpufleet.errors import InputError
from gpufleet.kinds import BUCKET_ADDON, EKS_ADDONS, LUSTRE_ADDON

CATALOG = load_catalog()
CHANNELS = sorted(CATALOG.locks)


@pytest.mark.parametrize("channel", CHANNELS)
def test_channel_has_an_image_and_add_ons_for_each_of_its_versions_of_kubernetes(channel: str) -> None:
    lock = CATALOG.locks[channel]
    for version in lock.kubernetes:
        image = CATALOG.node_image("eks-al2023", lock.eks_image, version)
        assert image.driver == lock.eks_ami_driver
        assert image.version.endswith(f"-{lock.eks_image}")
        addons = CATALOG.addon_versions(channel, version)
        assert set(addons.versions) == {*EKS_ADDONS, LUSTRE_ADDON, BUCKET_ADDON}
        assert set(addons.unverified) <= set(addons.versions)
        assert addons.versions["kube-proxy"].startswith(f"v{version}.")
        # Pods' own roles, by EKS Pod Identity, since version 2 (README of awslabs/mountpoint-s3-csi-driver).
        assert addons.versions[BUCKET_ADDON].startswith("v2.")


@pytest.mark.parametrize("channel", CHANNELS)
def test_slurm_image_of_a_channel_has_a_driver_of_its_branch(channel: str) -> None:
    lock = CATALOG.locks[channel]
    image = CATALOG.node_image("deep-learning-ubuntu-22.04", lock.slurm_image)
    assert image.driver is not None
    assert image.driver.partition(".")[0] == str(lock.driver_branch)
    assert image.name.endswith(image.release)


def test_every_figure_has_a_source_with_a_day() -> None:
    assert [item for item in CATALOG.node_images.values() if not item.source or item.date is None] == []
    assert [item for item in CATALOG.addon_sets.values() if not item.sources] == []


def test_unknown_version_of_kubernetes_has_no_add_ons() -> None:
    with pytest.raises(InputError, match=r"no versions of add-ons for Kubernetes 1\.20"):
        CATALOG.addon_versions("2026.11", "1.20")


CHANGELOG = """
# AMI Release v20990102
<summary><b>Kubernetes 1.99</b></summary>
<table>
  <tr><th>AMI Names</th><th>Release version</th><th>Included artifacts</th>
  <tr><td>amazon-eks-node-al2023-x86_64-nvidia-1.99-v20990102</td>
      <td rowspan="2">1.99.3-20990102</td><td rowspan="2">s3://x</td></tr>
</table>
<table>
  <tr><th>Package</th><th>AL2023_x86_64_NEURON</th><th>AL2023_x86_64_NVIDIA</th><th>AL2023_ARM_64_NVIDIA</th></tr>
  <tr><td>efa</td><td colspan="3">9.1.0-1.amzn2023</td></tr>
  <tr><td>kmod-nvidia-latest-dkms</td><td colspan="1">\u2014</td><td colspan="1">999.1.02-1.amzn2023</td>
      <td colspan="1">999.9.99-1.el9</td></tr>
  <tr><td>nvidia-container-toolkit</td><td>\u2014</td><td>\u2014</td><td>9.9.9-1</td></tr>
</table>
</details>
"""


def test_release_notes_are_read_in_the_column_of_the_image() -> None:
    (found,) = eks_images(CHANGELOG, "s1")
    assert (found["release"], found["kubernetes"], found["version"]) == (
        "20990102",
        "1.99",
        "1.99.3-20990102",
    )
    assert (found["driver"], found["efa_module"]) == ("999.1.02", "9.1.0")
    assert found["container_toolkit"] is None, "the package is not in this image"
