"""Reachability: the Kubernetes API, registries, and Slurm nodes in the cloud."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import GONE, Judge

KUBERNETES = "cloud.0.kubernetes"


def test_cluster_that_no_network_can_reach_is_a_warning(judge: Judge) -> None:
    finding = judge({f"{KUBERNETES}.private_cidrs": GONE}).only("cluster-unreachable", "warning")
    assert "private_cidrs" in finding.remedy
    assert judge({KUBERNETES: GONE, "cloud.0.node_groups.0.team": GONE}).of("cluster-unreachable")


def test_public_network_counts_as_access(judge: Judge) -> None:
    said = judge({f"{KUBERNETES}.private_cidrs": [], f"{KUBERNETES}.public_cidrs": ["203.0.113.0/24"]})
    assert said.rules == set()


def test_access_from_every_connected_network_is_refused(judge: Judge) -> None:
    finding = judge({f"{KUBERNETES}.private_cidrs": ["10.60.0.0/24", "0.0.0.0/0"]}).only("private-endpoint")
    assert finding.field == "cloud[0].kubernetes.private_cidrs[1]"


def test_duplicate_network_is_refused(judge: Judge) -> None:
    judge({f"{KUBERNETES}.private_cidrs": ["10.60.0.0/24"] * 2}).only("private-endpoint")


def test_network_with_host_bits_is_refused(judge: Judge) -> None:
    judge({f"{KUBERNETES}.private_cidrs": ["10.60.0.1/24"]}).only("cidr-valid")


@pytest.mark.parametrize(
    "arn",
    ["platform", "arn:aws:sts::123456789012:assumed-role/platform/me", "arn:aws:iam::1234:role/platform"],
)
def test_admin_that_is_not_an_iam_principal_is_refused(judge: Judge, arn: str) -> None:
    finding = judge({f"{KUBERNETES}.admins": [arn]}).only("cluster-admin")
    assert finding.value == arn


def test_duplicate_admin_is_refused_and_a_role_with_a_path_passes(judge: Judge) -> None:
    role = "arn:aws-us-gov:iam::123456789012:role/ops/platform"
    judge({f"{KUBERNETES}.admins": [role, role]}).only("cluster-admin")
    assert judge({f"{KUBERNETES}.admins": [role]}).rules == set()


def test_gpu_nodes_without_access_to_a_registry_are_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.network.nat": "none"}).only("registry-unreachable")
    assert finding.value == "none"
    assert "nvcr.io" in finding.message


def test_nodes_without_gpus_need_no_nvidia_registry(judge: Judge) -> None:
    changes: dict[str, Any] = {
        "cloud.0.network.nat": "none",
        "cloud.0.node_groups": [
            {"name": "cpu", "instance_types": ["m7i.xlarge"], "capacity": {"on_demand": {"max": 2}}}
        ],
    }
    assert "registry-unreachable" not in judge(changes).rules
    changes["cloud.0.node_groups"][0]["instance_types"] = ["m99i.xlarge"]
    assert "registry-unreachable" not in judge(changes).rules


def test_slurm_nodes_need_no_nvidia_registry(judge: Judge) -> None:
    changes = {"cloud.0.network.nat": "none", "cloud.0.scheduler": "slurm", KUBERNETES: None}
    assert judge(changes).of("registry-unreachable") == []


def test_cloud_slurm_nodes_without_a_connection_are_a_warning(judge: Judge) -> None:
    changes = {"cloud.0.scheduler": "slurm", KUBERNETES: None}
    finding = judge(changes).only("slurm-cloud-unconnected", "warning")
    assert "VPN" in finding.remedy
    assert "slurm-cloud-unconnected" not in judge(changes | {"cloud.0.node_groups": []}).rules
