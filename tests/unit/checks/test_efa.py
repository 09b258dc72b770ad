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


def test_efa_types_with_other_interfaces_do_not_share_a_group(judge: Judge) -> None:
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


def test_the_same_types_without_efa_may_share_a_group(judge: Judge) -> None:
    said = judge({"cloud.0.node_groups.3.network": "ena"})
    assert "efa-layout" not in said.rules


def test_training_on_an_efa_type_with_efa_off_is_doubtful(judge: Judge) -> None:
    finding = judge({f"{GROUP}.network": "ena"}).only("efa-off-in-training", "warning")
    assert finding.field == "cloud[0].node_groups[0].network"
    assert "32 EFA interfaces" in finding.message
    assert "network: efa" in finding.remedy


def test_batch_work_on_an_efa_type_without_efa_passes(judge: Judge) -> None:
    assert judge({f"{GROUP}.network": "ena", f"{GROUP}.workload": "batch"}).rules == set()


def test_an_efa_group_over_two_zones_is_doubtful(judge: Judge) -> None:
    finding = judge({f"{GROUP}.zones": ["us-east-1a", "us-east-1b"]}).only("efa-over-zones", "warning")
    assert "us-east-1a" in finding.remedy


def test_a_capacity_block_may_name_several_zones_with_efa(judge: Judge) -> None:
    assert judge({"cloud.0.node_groups.1.zones": ["us-east-1a", "us-east-1b"]}).rules == set()
