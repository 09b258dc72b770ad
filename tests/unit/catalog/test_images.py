"""Images of the channels: every component has them, and those of Kubernetes are kubeadm's."""

from __future__ import annotations

import subprocess

import pytest

from gpufleet.catalog import Catalog, load_catalog
from tests.kube.build import kubeadm, minors, not_asked, version

CATALOG = load_catalog()


@pytest.fixture
def catalog() -> Catalog:
    return CATALOG


@pytest.mark.parametrize("channel", CATALOG.locks)
def test_every_version_of_a_channel_has_its_images_and_chart(catalog: Catalog, channel: str) -> None:
    lock = catalog.locks[channel]
    charted = [
        *lock.cni.items(),
        ("kueue", lock.kueue),
        ("gpu-operator", lock.gpu_operator),
        ("network-operator", lock.network_operator),
    ]
    assert [key for key in charted if catalog.images[key].chart is None] == []
    releases = [("kubernetes", release) for release in lock.kubernetes_releases.values()]
    assert set(charted + releases) <= set(catalog.images)


def test_no_two_images_have_one_name_in_a_mirror(catalog: Catalog) -> None:
    names = {
        name
        for item in catalog.images.values()
        for name in (*item.images, *(name for part in item.parts.values() for name in part))
    }
    assert len({name.partition("/")[2] for name in names}) == len(names)


def test_names_that_were_not_read_at_their_tag_say_why(catalog: Catalog) -> None:
    assert [item.component for item in catalog.images.values() if not item.verified and not item.note] == []


@pytest.mark.parametrize("minor", minors())
def test_images_of_kubernetes_are_those_that_kubeadm_lists(catalog: Catalog, minor: str) -> None:
    if reason := not_asked("kubeadm", minor):
        pytest.skip(reason)
    release = version(minor)
    command = [str(kubeadm(minor)), "config", "images", "list", "--kubernetes-version", f"v{release}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == sorted(catalog.images["kubernetes", release].images)
