"""Cluster placement groups."""

from __future__ import annotations

from msgspec.structs import replace

from gpufleet.catalog import Catalog
from gpufleet.checks import ALL_CHECKS
from gpufleet.checks.rules import Fleet
from gpufleet.spec.load import load_fleet
from tests.unit.checks.fleets import NOW, Judge

GROUP = "cloud.0.node_groups.0"
BLOCK = "cloud.0.node_groups.1"
HELD = "cloud.0.node_groups.2"
ID = "cr-0123456789abcdef0"


def test_placement_group_with_a_capacity_block_is_refused(judge: Judge) -> None:
    finding = judge({f"{BLOCK}.placement": "cluster"}).only("placement-group-with-capacity-block")
    assert finding.field == "cloud[0].node_groups[1].placement"
    assert finding.value == "cluster"
    assert "placement: auto" in finding.remedy


def test_placement_group_in_several_zones_is_refused(judge: Judge) -> None:
    finding = judge({f"{GROUP}.placement": "cluster", f"{GROUP}.zones": ["us-east-1a", "us-east-1b"]}).only(
        "placement-group-over-zones"
    )
    assert finding.field == "cloud[0].node_groups[0].zones"
    assert "zones: [us-east-1a]" in finding.remedy


def test_placement_group_in_all_zones_of_the_site_is_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.node_groups.3.placement": "cluster"}).only("placement-group-over-zones")
    assert finding.field == "cloud[0].node_groups[3].placement"


def test_placement_group_in_one_zone_passes(judge: Judge) -> None:
    assert judge({f"{GROUP}.placement": "cluster"}).rules == set()


def test_placement_group_with_a_reservation_made_without_one_is_refused(judge: Judge) -> None:
    finding = judge({f"{HELD}.placement": "cluster", f"{HELD}.capacity.reserved.odcr.id": ID}).only(
        "placement-group-on-reservation"
    )
    assert "cannot use it" in finding.message
    assert "placement: none" in finding.remedy
    assert judge({f"{HELD}.placement": "none", f"{HELD}.capacity.reserved.odcr.id": ID}).rules == set()


def test_nodes_outside_the_placement_group_of_their_reservation_are_refused(judge: Judge) -> None:
    changes = {
        f"{HELD}.placement": "none",
        f"{HELD}.capacity.reserved.odcr.id": ID,
        f"{HELD}.capacity.reserved.odcr.placement_group": "pg-1",
    }
    assert "pg-1" in judge(changes).only("placement-group-on-reservation").message
    assert judge(changes | {f"{HELD}.placement": "cluster"}).rules == set()
    assert judge(changes | {f"{HELD}.placement": "auto"}).rules == set()


def test_placement_group_of_a_new_reservation_is_refused(judge: Judge) -> None:
    finding = judge({f"{HELD}.capacity.reserved.odcr.placement_group": "pg-1"}).only(
        "placement-group-on-reservation"
    )
    assert finding.field.endswith("odcr.placement_group")


def test_placement_group_with_a_reservation_made_here_passes(judge: Judge) -> None:
    assert judge({f"{HELD}.placement": "cluster"}).rules == set()


def test_type_without_placement_group_support_is_refused(judge: Judge, catalog: Catalog) -> None:
    judge({f"{GROUP}.placement": "cluster"})
    loaded = load_fleet(str(judge.folder / "fleet.yaml"), root=judge.folder)
    p5 = catalog.instances["p5.48xlarge"].model_copy(update={"placement_strategies": frozenset({"spread"})})
    other = replace(catalog, instances={**catalog.instances, p5.name: p5})
    check = next(check for check in ALL_CHECKS if check.rule == "placement-group-unsupported")
    (finding,) = check.run(Fleet(loaded.spec, other, loaded.source, NOW))
    assert finding.path == ("cloud", 0, "node_groups", 0, "placement")
