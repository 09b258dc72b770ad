"""Regions and zones."""

from __future__ import annotations

import pytest

from tests.unit.checks.fleets import Judge

GROUP = "cloud.0.node_groups.0"


def test_unknown_region_is_refused_with_the_nearest_known_one(judge: Judge) -> None:
    reported = judge({"cloud.0.region": "us-east-11"})
    finding = reported.of("region-known")[0]
    assert finding.severity == "error"
    assert finding.field == "cloud[0].region"
    assert "'us-east-1" in finding.remedy


def test_zone_of_another_region_is_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.zones": ["us-east-1a", "us-east-1b", "us-west-2a"]}).only("zone-in-region")
    assert finding.field == "cloud[0].zones[2]"
    assert finding.value == "us-west-2a"
    assert "us-east-1a" in finding.remedy


@pytest.mark.parametrize("zone", ["us-east-1", "use1-az1", "us-east-1az"])
def test_invalid_zone_name_is_refused(judge: Judge, zone: str) -> None:
    finding = judge({"cloud.0.zones": ["us-east-1a", "us-east-1b", zone]}).only("zone-in-region")
    assert finding.remedy.startswith("write its name (zones of us-east-1: us-east-1a, ")


def test_zones_of_an_unknown_region_have_its_name(judge: Judge) -> None:
    unknown = {"cloud.0.region": "us-east-9"}
    assert judge(unknown | {"cloud.0.zones": ["us-east-9a", "us-east-9b"]}).of("zone-in-region") == []
    finding = judge(unknown | {"cloud.0.zones": ["a"]}).of("zone-in-region")[0]
    assert finding.remedy == "write its name (such as us-east-9a)"


def test_zone_letter_that_the_region_does_not_have_is_refused(judge: Judge) -> None:
    judge({"cloud.0.zones": ["us-east-1a", "us-east-1b", "us-east-1x"]}).only("zone-in-region")


@pytest.mark.parametrize(("letter", "severity"), [("b", "warning"), ("f", "warning"), ("g", "error")])
def test_zone_letter_of_other_accounts_is_a_warning(judge: Judge, letter: str, severity: str) -> None:
    reported = judge(
        {
            "cloud.0.region": "ap-northeast-1",
            "cloud.0.zones": ["ap-northeast-1a", f"ap-northeast-1{letter}"],
            "cloud.0.node_groups": [],
        }
    )
    finding = reported.of("zone-in-region")[0]
    assert finding.severity == severity
    assert finding.value == f"ap-northeast-1{letter}"


@pytest.mark.parametrize(("letters", "found"), [("abcdefg", 0), ("abcdefgh", 1)])
def test_network_is_divided_for_at_most_seven_zones(judge: Judge, letters: str, found: int) -> None:
    reported = judge({"cloud.0.zones": [f"us-east-1{letter}" for letter in letters]})
    assert len(reported.of("zone-count")) == found


def test_duplicate_zone_is_refused(judge: Judge) -> None:
    judge({"cloud.0.zones": ["us-east-1a", "us-east-1b", "us-east-1a"]}).only("zone-repeated")


def test_kubernetes_site_in_one_zone_is_refused(judge: Judge) -> None:
    finding = judge(
        {"cloud.0.zones": ["us-east-1a"], "cloud.0.node_groups.2.capacity.reserved.odcr.zone": "us-east-1a"}
    ).only("zone-count")
    assert finding.remedy.startswith("add a zone, such as us-east-1b;")
    reported = judge({"cloud.0.region": "us-east-9", "cloud.0.zones": ["us-east-9a"]})
    assert reported.of("zone-count")[0].remedy.startswith("add a zone; ")


def test_slurm_site_in_one_zone_passes(judge: Judge) -> None:
    reported = judge(
        {
            "cloud.0.scheduler": "slurm",
            "cloud.0.kubernetes": None,
            "cloud.0.zones": ["us-east-1a"],
            "cloud.0.node_groups.2.capacity.reserved.odcr.zone": "us-east-1a",
        }
    )
    assert reported.rules == {"slurm-cloud-unconnected"}


def test_node_group_outside_the_zones_of_its_site_is_refused(judge: Judge) -> None:
    finding = judge({f"{GROUP}.zones": ["us-east-1c"]}).only("zone-in-site")
    assert finding.field == "cloud[0].node_groups[0].zones[0]"
    assert "us-east-1a, us-east-1b" in finding.remedy


def test_file_system_outside_the_zones_of_its_site_is_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.storage.0.lustre.zone": "us-east-1c"}).only("zone-in-site")
    assert finding.field == "cloud[0].storage[0].lustre.zone"
    assert judge({"cloud.0.storage.0.lustre.zone": "us-east-1b"}).rules == set()


def test_reservation_outside_the_zones_of_its_site_is_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.node_groups.2.capacity.reserved.odcr.zone": "us-east-1d"}).only("zone-in-site")
    assert finding.field == "cloud[0].node_groups[2].capacity.reserved.odcr.zone"


def test_reservation_in_another_zone_than_its_group_is_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.node_groups.2.zones": ["us-east-1a"]}).only("zone-in-site")
    assert "us-east-1b" in finding.message
    assert "zones: [us-east-1b]" in finding.remedy
