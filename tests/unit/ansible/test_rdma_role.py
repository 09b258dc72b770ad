"""Packages of the role rdma: what it removes before DOCA-OFED comes."""

from __future__ import annotations

import fnmatch

import pytest
import yaml

from tests.unit.ansible.gpu_roles import ANSIBLE, Role

MLNX_OFED = ("mlnx-ofed-all", "mlnx-ofed-basic", "mlnx-ofed-hpc", "mlnx-ofed-kernel-modules")
OF_BOTH = ("mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-utils", "mlnx-tools", "ofed-scripts", "doca-ofed")


def removed(name: str) -> bool:
    patterns = Role("rdma", rdma_kind="infiniband", group_names=[]).value("rdma__older_ofed")
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


@pytest.mark.parametrize("name", MLNX_OFED)
def test_packages_of_an_older_ofed_are_removed(name: str) -> None:
    assert removed(name)


@pytest.mark.parametrize("name", OF_BOTH)
def test_packages_of_doca_ofed_stay(name: str) -> None:
    assert not removed(name)


def test_older_ofed_is_removed_before_doca_ofed_is_installed() -> None:
    first, second = yaml.safe_load((ANSIBLE / "roles/rdma/tasks/install.yml").read_text())
    guard = second["gpufleet.rack.packages"]["guard"]
    assert first["gpufleet.rack.packages"] == {"absent": "{{ rdma__older_ofed }}", "guard": guard}
    assert first["when"] == "rdma_stack == 'doca'" and "names" in second["gpufleet.rack.packages"]
