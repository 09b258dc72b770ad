"""Reachability: the Kubernetes API, registries, and Slurm nodes in the cloud."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.errors import SpecError
from tests.unit.checks.fleets import FLEET, GONE, Judge

KUBERNETES = "cloud.0.kubernetes"


def test_cluster_that_no_network_can_reach_is_a_warning_with_direct_access(judge: Judge) -> None:
    closed = {f"{KUBERNETES}.private_cidrs": GONE}
    finding = judge(closed | {f"{KUBERNETES}.access": "direct"}).only("cluster-unreachable", "warning")
    assert "private_cidrs" in finding.remedy
    assert "access: ssm" in finding.remedy
    for access in ("ssm", "phased"):
        assert judge(closed | {f"{KUBERNETES}.access": access}).rules == set()
    assert judge(closed).rules == set(), "a private endpoint is reached through a node by default"


def test_access_through_a_node_needs_a_node(judge: Judge) -> None:
    none = {f"{KUBERNETES}.system_nodes": {"min": 0}}
    finding = judge(none).only("cluster-access")
    assert finding.field == "cloud[0].kubernetes.system_nodes.min"
    assert judge(none | {f"{KUBERNETES}.access": "direct"}).rules == set()


@pytest.mark.parametrize("access", ["direct", "phased"])
def test_port_without_access_through_a_node_is_refused(judge: Judge, access: str) -> None:
    finding = judge({f"{KUBERNETES}.access": access, f"{KUBERNETES}.access_port": 20443}).only(
        "cluster-access"
    )
    assert (finding.value, access in finding.message) == ("20443", True)


@pytest.mark.parametrize("port", [0, 443, 65536, "none"])
def test_port_that_a_process_cannot_take_is_refused(judge: Judge, port: object) -> None:
    with pytest.raises(SpecError) as error:
        judge({f"{KUBERNETES}.access_port": port})
    (finding,) = error.value.findings
    assert finding.field == "cloud[0].kubernetes.access_port"
    assert finding.remedy


@pytest.mark.parametrize("port", [65535, 65534, 20443])
def test_port_that_leads_to_two_clusters_is_refused(judge: Judge, port: int) -> None:
    other = {
        **FLEET["cloud"][0],
        "site": "second",
        "network": {"cidr": "10.99.0.0/16"},
        "kubernetes": {"access_port": port},
        "node_groups": [],
        "storage": [],
    }
    finding = judge({f"{KUBERNETES}.access_port": port, "cloud.+": other}).only("cluster-access")
    assert finding.field == "cloud[1].kubernetes.access_port"
    assert f"access_port: {port + 1 if port < 65535 else 1024}" in finding.remedy


VIEWER = "arn:aws:iam::123456789012:role/preview"


def test_viewer_that_is_not_an_iam_principal_or_is_an_admin_is_refused(judge: Judge) -> None:
    assert judge({f"{KUBERNETES}.viewers": ["preview"]}).only("cluster-viewer").value == "preview"
    judge({f"{KUBERNETES}.viewers": [VIEWER, VIEWER]}).only("cluster-viewer")
    both = judge({f"{KUBERNETES}.viewers": [VIEWER], f"{KUBERNETES}.admins": [VIEWER]}).only("cluster-viewer")
    assert "administrator" in both.message
    assert judge({f"{KUBERNETES}.viewers": [VIEWER]}).rules == set()


def test_public_network_counts_as_access(judge: Judge) -> None:
    reported = judge({f"{KUBERNETES}.private_cidrs": [], f"{KUBERNETES}.public_cidrs": ["203.0.113.0/24"]})
    assert reported.rules == set()


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
    assert "registry-unreachable" not in judge({**changes, KUBERNETES: GONE}).rules


def test_handler_of_interruptions_is_pulled_from_a_public_registry(judge: Judge) -> None:
    handled = {"cloud.0.network.nat": "none", "cloud.0.interruptions": {}}
    messages = [each.message for each in judge(handled).of("registry-unreachable")]
    assert messages[1:] == [
        "without NAT, system nodes cannot pull the handler of interruptions from public.ecr.aws"
    ]
    assert judge({"cloud.0.interruptions": {}}).of("registry-unreachable") == []


def test_slurm_nodes_need_no_nvidia_registry(judge: Judge) -> None:
    changes = {"cloud.0.network.nat": "none", "cloud.0.scheduler": "slurm", KUBERNETES: None}
    assert judge(changes).of("registry-unreachable") == []


def test_cloud_slurm_nodes_without_a_connection_are_a_warning(judge: Judge) -> None:
    changes = {"cloud.0.scheduler": "slurm", KUBERNETES: None}
    finding = judge(changes).only("slurm-cloud-unconnected", "warning")
    assert "'slurm: {controllers: ...}'" in finding.remedy and "'network: {vpn: ...}'" in finding.remedy
    assert "slurm-cloud-unconnected" not in judge(changes | {"cloud.0.node_groups": []}).rules
