"""EFA."""

from __future__ import annotations

from tests.unit.checks.fleets import Judge

GROUP = "cloud.0.node_groups.0"


def test_efa_on_a_type_without_it_is_refused(judge: Judge) -> None:
    finding = judge({f"{GROUP}.instance_types": ["g6.xlarge"]}).only("efa-unsupported")
    assert finding.field == "cloud[0].node_groups[0].network"
    assert finding.value == "efa"
    assert "network: ena" in finding.remedy
    assert "g6.8xlarge" in finding.remedy


def test_efa_types_with_different_interfaces_cannot_share_a_group(judge: Judge) -> None:
    said = judge(
        {
            "cloud.0.region": "us-west-2",
            "cloud.0.zones": ["us-west-2a", "us-west-2b"],
            "cloud.0.node_groups": [
                {
                    "name": "h200",
                    "instance_types": ["p5e.48xlarge", "p5en.48xlarge"],
                    "capacity": {"spot": {"max": 1}},
                    "zones": ["us-west-2a"],
                    "network": "efa",
                }
            ],
            "cloud.0.kubernetes.teams": [],
        }
    )
    finding = said.of("efa-layout")[0]
    assert said.rules == {"efa-layout"}
    assert "16 EFA interfaces" in finding.message
    assert "32" in finding.message


def test_same_types_without_efa_can_share_a_group(judge: Judge) -> None:
    said = judge({"cloud.0.node_groups.3.network": "ena"})
    assert "efa-layout" not in said.rules


def test_training_with_efa_disabled_is_a_warning(judge: Judge) -> None:
    finding = judge({f"{GROUP}.network": "ena"}).only("efa-off-in-training", "warning")
    assert finding.field == "cloud[0].node_groups[0].network"
    assert "32 EFA interfaces" in finding.message
    assert "network: efa" in finding.remedy


def test_batch_work_with_efa_disabled_passes(judge: Judge) -> None:
    assert judge({f"{GROUP}.network": "ena", f"{GROUP}.workload": "batch"}).rules == set()


def test_efa_group_in_two_zones_is_a_warning(judge: Judge) -> None:
    finding = judge({f"{GROUP}.zones": ["us-east-1a", "us-east-1b"]}).only("efa-over-zones", "warning")
    assert "us-east-1a" in finding.remedy


def test_capacity_block_with_efa_may_list_several_zones(judge: Judge) -> None:
    assert judge({"cloud.0.node_groups.1.zones": ["us-east-1a", "us-east-1b"]}).rules == set()
