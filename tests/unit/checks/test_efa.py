"""EFA."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import Judge

GROUP = "cloud.0.node_groups.0"


def test_efa_on_a_type_without_it_is_refused(judge: Judge) -> None:
    finding = judge({f"{GROUP}.instance_types": ["g6.xlarge"]}).only("efa-unsupported")
    assert finding.field == "cloud[0].node_groups[0].network"
    assert finding.value == "efa"
    assert finding.remedy.startswith("write 'network: ena', or use a type with EFA (g6.8xlarge, ")


def test_type_without_a_gpu_has_no_other_type_with_efa(judge: Judge) -> None:
    (finding,) = judge({f"{GROUP}.instance_types": ["m7i.xlarge"]}).of("efa-unsupported")
    assert finding.remedy == "write 'network: ena'"


def _h200(network: str) -> dict[str, Any]:
    group = {
        "name": "h200",
        "instance_types": ["p5e.48xlarge", "p5en.48xlarge"],
        "capacity": {"spot": {"max": 1}},
        "zones": ["us-west-2a"],
        "network": network,
    }
    return {
        "cloud.0.region": "us-west-2",
        "cloud.0.zones": ["us-west-2a", "us-west-2b"],
        "cloud.0.node_groups": [group],
        "cloud.0.kubernetes.teams": [],
    }


def test_efa_types_with_different_interfaces_cannot_share_a_group(judge: Judge) -> None:
    reported = judge(_h200("efa"))
    finding = reported.of("efa-layout")[0]
    assert reported.rules == {"efa-layout"}
    assert "16 EFA interfaces" in finding.message
    assert "32" in finding.message
    assert judge(_h200("ena")).rules == set()


@pytest.mark.parametrize("types", [["p4d.24xlarge", "p4de.24xlarge"], ["g6.8xlarge", "g6.4xlarge"]])
def test_types_with_the_same_interfaces_or_without_efa_have_no_other_layout(
    judge: Judge, types: list[str]
) -> None:
    reported = judge({f"{GROUP}.instance_types": types, "cloud.0.kubernetes.teams.0.gpus": 8})
    assert reported.of("efa-layout") == []


def test_same_types_without_efa_can_share_a_group(judge: Judge) -> None:
    reported = judge({"cloud.0.node_groups.3.network": "ena"})
    assert "efa-layout" not in reported.rules


def test_training_with_efa_disabled_is_a_warning(judge: Judge) -> None:
    finding = judge({f"{GROUP}.network": "ena"}).only("efa-off-in-training", "warning")
    assert finding.field == "cloud[0].node_groups[0].network"
    assert finding.message.endswith("EFA is off: p5.48xlarge has 32 EFA interfaces")
    assert "network: efa" in finding.remedy


@pytest.mark.parametrize(
    ("types", "says"),
    [
        (["g6.8xlarge"], ["EFA is off: g6.8xlarge has 1 EFA interface"]),
        (["g6.8xlarge", "g6.4xlarge"], []),
        (["g6.4xlarge"], []),
    ],
)
def test_training_without_efa_passes_only_on_types_without_it(
    judge: Judge, types: list[str], says: list[str]
) -> None:
    reported = judge({f"{GROUP}.network": "ena", f"{GROUP}.instance_types": types})
    assert [found.message.partition(", but ")[2] for found in reported.of("efa-off-in-training")] == says


def test_batch_work_with_efa_disabled_passes(judge: Judge) -> None:
    assert judge({f"{GROUP}.network": "ena", f"{GROUP}.workload": "batch"}).rules == set()


def test_efa_group_in_two_zones_is_a_warning(judge: Judge) -> None:
    finding = judge({f"{GROUP}.zones": ["us-east-1a", "us-east-1b"]}).only("efa-over-zones", "warning")
    assert "us-east-1a" in finding.remedy
    cluster = {f"{GROUP}.placement": "cluster"}  # another rule's error
    assert judge({f"{GROUP}.zones": ["us-east-1a", "us-east-1b"]} | cluster).of("efa-over-zones") == []


def test_capacity_block_with_efa_may_list_several_zones(judge: Judge) -> None:
    assert judge({"cloud.0.node_groups.1.zones": ["us-east-1a", "us-east-1b"]}).rules == set()
