"""Installed versions compared with the lock: value found, value of the lock, source, and what to do."""

from __future__ import annotations

import fnmatch
import re
import shlex

import pytest
import yaml

from gpufleet.catalog import load_catalog
from gpufleet.catalog.models import SoftwareLock
from gpufleet.racks.verify.hosts import base
from gpufleet.racks.verify.result import Result
from gpufleet.racks.verify.versions import LOCKED_SOFTWARE, PackageVersion, parse_policy, source_of, upstream
from tests.conftest import ROOT

from .samples import CUDA, measured, policy

DEBIAN = "http://deb.debian.org/debian bookworm/main amd64"
ASKED_BY_ROLES = {
    "driver": "nvidia_driver",
    "fabric_manager": "fabric_manager",
    "nccl": "nccl",
    "container_toolkit": "container_toolkit",
    "kubernetes_releases": "kubernetes_base",
    "containerd": "kubernetes_base",
    "cni": "kubernetes_gpu",
    "gpu_operator": "kubernetes_gpu",
    "network_operator": "kubernetes_gpu",
    "kueue": "kubernetes_gpu",
}
NOT_ON_RACKS = {
    *("channel", "driver_branch", "driver_support", "driver_eol", "eks_ami_driver", "aws_ofi_nccl"),
    *("efa_installer", "device_plugin", "kubernetes", "gpus_min_driver", "doca_key_fingerprint"),
    *("notes", "unverified", "sources", "eks_addons", "eks_image", "slurm_image"),
    *("slurm_neuron_image", "neuron", "cluster_autoscaler", "jobset", "lws"),
    *("karpenter", "karpenter_digest"),
    *("nvsentinel", "cert_manager"),
}


def results(text: str, **values: object) -> dict[str, Result]:
    found = base(measured("base", {"versions": text}, **values))
    return {item.check: item for item in found if item.role == "versions"}


def test_slurm_of_the_distribution_is_a_warning_with_both_versions_source_and_remedy() -> None:
    found = results(policy(slurmd=("22.05.8-4+deb12u3", DEBIAN)))["Slurm"]
    assert (found.status, found.measured, found.expected) == ("warn", "22.05.8", "25.05.8")
    assert found.message == "22.05.8 instead of 25.05.8, from the distribution (http://deb.debian.org/debian)"
    assert "add its packages to `package_mirror`" in found.remedy


def test_other_version_of_what_a_role_pins_fails_with_the_role_to_run() -> None:
    packages = {
        "datacenter-gpu-manager-4-core": ("1:4.5.1-1", CUDA),
        "datacenter-gpu-manager-4-cuda13": ("1:4.6.0-1", CUDA),
        "doca-ofed": ("3.3.0-1", "https://linux.mellanox.com/public/repo/doca/3.3.0/debian12.5/x86_64 ./"),
    }
    found = results(policy(**packages))
    assert found["DCGM"].status == "fail"
    assert found["DCGM"].message == f"4.5.1-1 instead of 4.6.0-1, from NVIDIA's repository ({CUDA})"
    assert found["DCGM"].remedy == "gpufleet configure <env> --only dcgm --limit dgx01"
    assert (found["DOCA-OFED"].status, found["DOCA-OFED"].measured) == ("fail", "3.3.0")


def test_component_that_is_not_installed_passes() -> None:
    assert {(item.status, item.measured) for item in results("").values()} == {("pass", "not installed")}
    assert len(results("")) == len(LOCKED_SOFTWARE)


def test_inventory_without_lock_compares_nothing() -> None:
    assert results(policy(slurmd=("22.05.8-4", DEBIAN)), gpufleet_software=None) == {}


def test_unmeasured_versions_fail() -> None:
    found = [item for item in base(measured("base", {"versions": None})) if item.role == "versions"]
    assert {item.status for item in found} == {"fail"}


def test_only_the_installed_version_of_a_package_counts_with_all_its_repositories() -> None:
    text = "\n".join(
        [
            "slurmd:",
            "  Installed: 22.05.8-4+deb12u3",
            "  Candidate: 25.05.8-1",
            "  Version table:",
            "     25.05.8-1 600",
            "        600 http://mirror.example/vendor ./ Packages",
            " *** 22.05.8-4+deb12u3 500",
            "        500 http://deb.debian.org/debian bookworm/main amd64 Packages",
            "        500 http://security.debian.org bookworm-security/main amd64 Packages",
            "        100 /var/lib/dpkg/status",
            "helm:",
            "  Installed: (none)",
            "  Candidate: 4.3.1-1",
            "  Version table:",
            "     4.3.1-1 500",
            "        500 https://packages.buildkite.com/helm-linux/helm-debian/any any/main amd64 Packages",
        ]
    )
    repositories = (
        "http://deb.debian.org/debian bookworm/main",
        "http://security.debian.org bookworm-security/main",
    )
    assert parse_policy(text) == {"slurmd": PackageVersion("22.05.8-4+deb12u3", repositories)}


@pytest.mark.parametrize(
    ("version", "wanted", "reported"),
    [
        ("25.05.8-2", "25.05.8", "25.05.8"),
        ("25.05.80-1", "25.05.8", "25.05.80"),
        ("1:4.6.0-1", "4.6.0-1", "4.6.0-1"),
        ("1:4.6.0-2", "4.6.0-1", "4.6.0-2"),
        ("22.05.8-4+deb12u3", "25.05.8", "22.05.8"),
        ("3.4.0-26.04-0.8.6.0-0", "3.4.0", "3.4.0"),
    ],
)
def test_versions_are_compared_as_exactly_as_the_lock_writes_them(
    version: str, wanted: str, reported: str
) -> None:
    assert upstream(version, wanted) == reported


@pytest.mark.parametrize(
    ("repositories", "reported"),
    [
        ((), "a file: no repository of the host has it"),
        (("http://mirror.example/vendor ./",), "the site mirror (http://mirror.example/vendor)"),
        (
            ("http://mirror.example/debian bookworm/main",),
            "the distribution (http://mirror.example/debian)",
        ),
        (
            ("http://archive.ubuntu.com/ubuntu noble/universe",),
            "the distribution (http://archive.ubuntu.com/ubuntu)",
        ),
        ((CUDA,), f"NVIDIA's repository ({CUDA})"),
        (
            ("https://download.docker.com/linux/debian bookworm/stable",),
            "another repository (https://download.docker.com/linux/debian)",
        ),
        (("https://fakenvidia.com/x ./",), "another repository (https://fakenvidia.com/x)"),
    ],
)
def test_source_of_a_package_is_shown_by_kind_and_address(
    repositories: tuple[str, ...], reported: str
) -> None:
    assert source_of(repositories, "http://mirror.example") == reported


def test_every_version_of_the_lock_is_compared() -> None:
    compared = {each.field for each in LOCKED_SOFTWARE}
    # nccl-tests only exist where a role variable names their source; the module builds that version.
    assert compared | set(ASKED_BY_ROLES) | {"nccl_tests"} == set(SoftwareLock.model_fields) - NOT_ON_RACKS
    assert not compared & set(ASKED_BY_ROLES)


def test_role_measures_the_packages_of_every_component() -> None:
    (task,) = yaml.safe_load((ROOT / "ansible/roles/base/tasks/verify.yml").read_text())
    script = task["gpufleet.rack.measure"]["commands"]["base_versions"][-1]
    patterns = shlex.split(script.partition(" 2>")[0])[4:]
    names = [
        *("slurmctld", "slurmd", "slurmdbd", "slurm-client", "slurm-smd-slurmd", "helm", "libgdrapi"),
        *("datacenter-gpu-manager-4-core", "datacenter-gpu-manager-exporter", "doca-ofed"),
        "cuda-toolkit-13-0",
    ]
    assert load_catalog().lock("2026.11").cuda.startswith("13.0")
    for name in names:
        assert any(fnmatch.fnmatch(name, pattern) for pattern in patterns), name
        assert any(re.fullmatch(each.packages, name) for each in LOCKED_SOFTWARE), name
