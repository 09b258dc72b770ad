"""Reservations: reserved or bought capacity, and its protection."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gpufleet.components.capacity import (
    CapacityBlock,
    CapacityBlockArgs,
    OnDemandReservation,
    OnDemandReservationArgs,
)
from tests.unit.components.recording import Recording, record


def block(**changes: Any) -> Recording:
    args: dict[str, Any] = {
        "instance_type": "p5.48xlarge",
        "count": 8,
        "duration": timedelta(days=14),
        "start": "in 14 d",
        "zones": ["us-east-1a"],
        "tags": {"team": "ml"},
    }
    return record(lambda: CapacityBlock("block", CapacityBlockArgs(**args | changes)))


def reservation(**changes: Any) -> Recording:
    args: dict[str, Any] = {"instance_type": "g6e.48xlarge", "count": 4, "zone": "us-east-1b", "tags": {}}
    return record(lambda: OnDemandReservation("odcr", OnDemandReservationArgs(**args | changes)))


def test_bought_block_is_the_one_that_was_found() -> None:
    built = block()
    bought = built.one("CapacityBlockReservation")
    assert bought.inputs["capacityBlockOfferingId"] == "cb-0123456789abcdef0"
    assert bought.inputs["instancePlatform"] == "Linux/UNIX"
    assert bought.inputs["tags"] == {"team": "ml", "Name": "block"}


def test_block_is_requested_in_hours_in_the_region_of_the_provider() -> None:
    asked = block().one("CapacityBlockOffering").inputs
    assert (asked["duration_hours"], asked["count"], asked["region"]) == (336, 8, "us-east-1")
    assert asked["start"] == "in 14 d"
    assert block(max_upfront_usd="800000").one("CapacityBlockOffering").inputs["max_upfront_usd"] == "800000"


def test_block_and_its_offering_are_protected_and_retained_on_delete() -> None:
    built = block()
    assert built.one("CapacityBlockOffering").protect
    bought = built.one("CapacityBlockReservation")
    assert bought.protect
    assert bought.retain_on_delete


def test_trial_may_release_its_block() -> None:
    built = block(protect=False)
    assert not built.one("CapacityBlockOffering").protect
    assert not built.one("CapacityBlockReservation").protect
    assert not built.one("CapacityBlockReservation").retain_on_delete


def test_block_has_no_placement_group() -> None:
    assert block().of("PlacementGroup") == []


def test_reservation_is_targeted_only_and_has_no_end() -> None:
    inputs = reservation().one("CapacityReservation").inputs
    assert inputs["instanceMatchCriteria"] == "targeted"
    assert inputs["endDateType"] == "unlimited"
    assert (inputs["instanceCount"], inputs["availabilityZone"]) == (4, "us-east-1b")
    assert "placementGroupArn" not in inputs


def test_reservation_for_a_placement_group_is_created_inside_it() -> None:
    built = reservation(placement_group=True)
    group = built.one("PlacementGroup").inputs
    assert group["strategy"] == "cluster"
    assert group["tags"] == {"Name": "odcr"}
    arn = built.one("CapacityReservation").inputs["placementGroupArn"]
    assert arn.endswith("PlacementGroup/odcr")


ORGANIZATION = "arn:aws:organizations::111122223333:organization/o-exampleorgid"


def test_reservation_is_shared_with_nobody_unless_asked() -> None:
    built = reservation()
    assert [
        kind for kind in ("ResourceShare", "ResourceAssociation", "PrincipalAssociation") if built.of(kind)
    ] == []


def test_reservation_is_shared_with_each_principal_inside_of_the_organization() -> None:
    built = reservation(share_with=["222233334444", ORGANIZATION])
    share = built.one("ResourceShare").inputs
    assert share["allowExternalPrincipals"] is False
    assert share["tags"] == {"Name": "odcr"}
    assert built.one("ResourceAssociation").inputs["resourceArn"].endswith("CapacityReservation/odcr")
    principals = {each.name: each.inputs["principal"] for each in built.of("PrincipalAssociation")}
    assert principals == {"odcr-222233334444": "222233334444", "odcr-o-exampleorgid": ORGANIZATION}


def test_accounts_outside_of_the_organization_need_consent() -> None:
    built = reservation(share_with=["222233334444"], share_outside_organization=True)
    assert built.one("ResourceShare").inputs["allowExternalPrincipals"] is True
