"""On-Demand Capacity Reservations."""

from __future__ import annotations

import pytest

from gpufleet.errors import SpecError
from tests.unit.checks.fleets import GONE, Judge

GROUP = "cloud.0.node_groups.2"
ODCR = f"{GROUP}.capacity.reserved.odcr"
FIELD = "cloud[0].node_groups[2].capacity.reserved.odcr"
ID = "cr-0123456789abcdef0"
POOL = "arn:aws:resource-groups:us-east-1:111122223333:group/training"


def test_existing_reservation_passes(judge: Judge) -> None:
    assert judge({f"{ODCR}.id": ID, f"{ODCR}.instance_type": "p4d.24xlarge"}).rules == set()


def test_reservation_of_another_type_is_refused(judge: Judge) -> None:
    finding = judge({f"{ODCR}.id": ID, f"{ODCR}.instance_type": "p5.48xlarge"}).only("odcr-type")
    assert finding.field == f"{FIELD}.instance_type"
    assert finding.value == "p5.48xlarge"
    assert "instance_types: [p5.48xlarge]" in finding.remedy


def test_reservation_for_several_types_is_refused(judge: Judge) -> None:
    finding = judge({f"{GROUP}.instance_types": ["p4d.24xlarge", "p4de.24xlarge"]}).only("odcr-type")
    assert finding.field == "cloud[0].node_groups[2].instance_types"


def test_reservation_of_a_type_that_is_not_sold_on_demand_is_refused(judge: Judge) -> None:
    judge.change_catalog("instances", **{"p4d.24xlarge": {"usage_classes": ("spot", "capacity-block")}})
    assert judge().fields("odcr-type") == ["cloud[0].node_groups[2].instance_types[0]"]


def test_reservation_without_a_definite_zone_is_refused(judge: Judge) -> None:
    for changes, what in (({}, "a capacity reservation"), ({f"{ODCR}.id": ID}, f"reservation {ID}")):
        finding = judge({f"{ODCR}.zone": GONE} | changes).only("odcr-zone")
        assert finding.message == (
            f"{what} is in one zone, but node group 'held' can use us-east-1a, us-east-1b"
        )


def test_zone_of_a_group_in_one_zone_is_that_of_its_reservation(judge: Judge) -> None:
    assert judge({f"{ODCR}.zone": GONE, f"{GROUP}.zones": ["us-east-1a"]}).rules == set()


@pytest.mark.parametrize("text", ["cr-123", "lt-0123456789abcdef0", "cr-0123456789ABCDEF0", "reservation"])
def test_invalid_reservation_id_is_refused(judge: Judge, text: str) -> None:
    finding = judge({f"{ODCR}.id": text}).only("reservation-id")
    assert finding.field == f"{FIELD}.id"


def test_two_groups_with_one_reservation_are_refused(judge: Judge) -> None:
    block = {"nodes": 1, "id": ID, "duration": "7 d", "zone": "us-east-1a"}
    finding = judge({f"{ODCR}.id": ID, "cloud.0.node_groups.1.capacity.reserved.capacity_block": block}).only(
        "reservation-repeated"
    )
    assert "'block'" in finding.message


def test_too_small_reservation_is_refused(judge: Judge) -> None:
    finding = judge({f"{ODCR}.id": ID, f"{ODCR}.nodes": 16, f"{ODCR}.instances": 11}).only(
        "reservation-too-small"
    )
    assert finding.field == f"{FIELD}.nodes"
    assert finding.value == "16"
    assert "nodes: 11" in finding.remedy


def test_large_enough_reservation_passes(judge: Judge) -> None:
    changes = {f"{ODCR}.id": ID, f"{ODCR}.nodes": 2, f"{ODCR}.instances": 2}
    assert judge(changes).rules == set()
    odcr = {"nodes": 2, "id": "cr-fedcba98", "instances": 2, "zone": "us-east-1a"}
    more = {"name": "more", "instance_types": ["p4d.24xlarge"], "capacity": {"reserved": {"odcr": odcr}}}
    assert judge({**changes, "cloud.0.node_groups.+": more}).rules == set()


def test_reservation_to_be_made_has_no_size_yet(judge: Judge) -> None:
    assert judge({f"{ODCR}.nodes": 2, f"{ODCR}.instances": 1}).of("reservation-too-small") == []


def test_reservation_in_a_zone_outside_its_group_is_refused(judge: Judge) -> None:
    reported = judge({f"{ODCR}.zone": "us-east-1b", f"{GROUP}.zones": ["us-east-1a"]})
    assert reported.rules == {"zone-in-site"}


def test_resource_group_of_reservations_may_be_in_several_zones(judge: Judge) -> None:
    assert judge({f"{ODCR}.group": POOL, f"{ODCR}.zone": GONE}).rules == set()


def test_resource_group_beside_an_id_is_refused(judge: Judge) -> None:
    finding = judge({f"{ODCR}.group": POOL, f"{ODCR}.id": ID}).only("reservation-group")
    assert finding.field == f"{FIELD}.group"
    assert ID in finding.message


def test_resource_group_of_another_region_is_refused(judge: Judge) -> None:
    finding = judge({f"{ODCR}.group": POOL.replace("us-east-1", "us-west-2")}).only("reservation-group")
    assert finding.message == "the resource group is in us-west-2, but site 'use1' is in us-east-1"


@pytest.mark.parametrize(
    "text",
    [
        "arn:aws:ec2:us-east-1:111122223333:capacity-reservation/cr-0123456789abcdef0",
        "arn:aws:resource-groups:us-east-1:1111:group/training",
        "training",
    ],
)
def test_other_text_than_the_arn_of_a_resource_group_is_refused(judge: Judge, text: str) -> None:
    with pytest.raises(SpecError) as caught:
        judge({f"{ODCR}.group": text})
    (finding,) = caught.value.findings
    assert (finding.field, finding.value) == (f"{FIELD}.group", text)
    assert "the ARN of a resource group" in f"{finding.message} {finding.remedy}"


def test_node_groups_share_what_a_resource_group_holds(judge: Judge) -> None:
    held = {"nodes": 3, "group": POOL, "instances": 4}
    more = {"name": "more", "instance_types": ["p4d.24xlarge"], "capacity": {"reserved": {"odcr": held}}}
    changes = {f"{ODCR}.group": POOL, f"{ODCR}.instances": 4, "cloud.0.node_groups.+": more}
    assert judge(changes).rules == set()
    finding = judge({**changes, f"{ODCR}.nodes": 2}).only("reservation-too-small")
    assert finding.field == "cloud[0].node_groups[4].capacity.reserved.odcr.nodes"
    assert "beside 2 of other node groups" in finding.message
    assert "nodes: 2" in finding.remedy


def test_node_groups_with_other_types_share_nothing_of_a_resource_group(judge: Judge) -> None:
    held = {"nodes": 4, "group": POOL, "instances": 4}
    more = {"name": "more", "instance_types": ["p4de.24xlarge"], "capacity": {"reserved": {"odcr": held}}}
    changes = {f"{ODCR}.group": POOL, f"{ODCR}.nodes": 4, f"{ODCR}.instances": 4}
    assert judge({**changes, "cloud.0.node_groups.+": more}).rules == set()


def test_placement_in_front_of_a_resource_group_needs_the_group_of_its_reservations(judge: Judge) -> None:
    changes = {f"{ODCR}.group": POOL, f"{GROUP}.placement": "cluster"}
    assert judge(changes).only("placement-group-on-reservation").field.endswith("placement")
    assert judge({**changes, f"{ODCR}.placement_group": "packed"}).rules == set()


OTHER = "222233334444"
ORGANIZATION = "arn:aws:organizations::111122223333:organization/o-exampleorgid"


def test_reservation_that_is_made_here_may_be_shared(judge: Judge) -> None:
    changes = {f"{ODCR}.share_with": [OTHER, ORGANIZATION], f"{ODCR}.shared_nodes": 2}
    assert judge(changes).rules == set()
    assert judge({**changes, f"{ODCR}.share_outside_organization": True}).rules == set()


@pytest.mark.parametrize(
    ("field", "value"),
    [("share_with", [OTHER]), ("shared_nodes", 2), ("share_outside_organization", True)],
)
@pytest.mark.parametrize("existing", [{f"{ODCR}.id": ID}, {f"{ODCR}.group": POOL}])
def test_existing_reservation_is_shared_by_its_owner(
    judge: Judge, existing: dict[str, str], field: str, value: object
) -> None:
    finding = judge({**existing, f"{ODCR}.{field}": value}).only("reservation-share")
    assert finding.field == f"{FIELD}.{field}"
    assert "exists already" in finding.message


@pytest.mark.parametrize(("field", "value"), [("shared_nodes", 2), ("share_outside_organization", True)])
def test_settings_of_a_share_need_someone_to_share_with(judge: Judge, field: str, value: object) -> None:
    finding = judge({f"{ODCR}.{field}": value}).only("reservation-share")
    assert "`share_with` is empty" in finding.message


def test_account_that_is_listed_twice_is_refused(judge: Judge) -> None:
    finding = judge({f"{ODCR}.share_with": [OTHER, OTHER]}).only("reservation-share")
    assert finding.field == f"{FIELD}.share_with[1]"


def test_organizations_are_not_shared_with_from_outside(judge: Judge) -> None:
    changes = {f"{ODCR}.share_with": [ORGANIZATION], f"{ODCR}.share_outside_organization": True}
    assert "lists no account" in judge(changes).only("reservation-share").message
    assert judge({f"{ODCR}.share_with": [ORGANIZATION]}).rules == set()


@pytest.mark.parametrize("principal", ["*", "12345", "arn:aws:iam::222233334444:root", "everybody"])
def test_share_with_other_than_accounts_and_organizations_is_refused(judge: Judge, principal: str) -> None:
    with pytest.raises(SpecError) as caught:
        judge({f"{ODCR}.share_with": [principal]})
    (finding,) = caught.value.findings
    assert finding.field == f"{FIELD}.share_with[0]"
    assert "account id" in f"{finding.message} {finding.remedy}"
