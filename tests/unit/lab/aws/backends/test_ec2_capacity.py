from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import boto3
import pytest
from moto import mock_aws

from gpufleet.catalog import load_catalog
from gpufleet.lab.aws import backends

LINUX = {"InstancePlatform": "Linux/UNIX"}
DAY = 24


def _reserve(ec2: Any, **more: Any) -> Any:
    wanted = {
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": "us-east-1a",
        "InstanceCount": 2,
        **LINUX,
        **more,
    }
    return ec2.create_capacity_reservation(**wanted)["CapacityReservation"]


def _offers(ec2: Any, hours: int = 14 * DAY, **more: Any) -> Any:
    wanted = {"InstanceType": "p5.48xlarge", "InstanceCount": 4, **more}
    return ec2.describe_capacity_block_offerings(CapacityDurationHours=hours, **wanted)[
        "CapacityBlockOfferings"
    ]


def test_reservation_is_created_updated_and_cancelled(aws: Any, refused: Any, tags: Any) -> None:
    ec2 = aws("ec2")
    made = _reserve(ec2, TagSpecifications=tags("capacity-reservation", fleet="atlas"))
    reservation = made["CapacityReservationId"]
    assert (made["State"], made["TotalInstanceCount"], made["AvailableInstanceCount"]) == ("active", 2, 2)
    assert (made["EndDateType"], made["InstanceMatchCriteria"], made["ReservationType"]) == (
        "unlimited",
        "open",
        "default",
    )
    assert made["Tags"] == [{"Key": "fleet", "Value": "atlas"}]
    assert "EndDate" not in made and "PlacementGroupArn" not in made and "CapacityBlockId" not in made
    ids = {"CapacityReservationIds": [reservation]}
    assert ec2.describe_capacity_reservations(**ids)["CapacityReservations"] == [made]
    end = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(days=30)
    ec2.modify_capacity_reservation(
        CapacityReservationId=reservation,
        InstanceCount=4,
        EndDate=end,
        EndDateType="limited",
        InstanceMatchCriteria="targeted",
    )
    (changed,) = ec2.describe_capacity_reservations(**ids)["CapacityReservations"]
    assert (changed["TotalInstanceCount"], changed["EndDate"]) == (4, end)
    assert changed["InstanceMatchCriteria"] == "targeted"
    ec2.cancel_capacity_reservation(CapacityReservationId=reservation)
    (cancelled,) = ec2.describe_capacity_reservations(**ids)["CapacityReservations"]
    assert (cancelled["State"], cancelled["AvailableInstanceCount"]) == ("cancelled", 0)
    with refused("InvalidCapacityReservationState"):
        ec2.modify_capacity_reservation(CapacityReservationId=reservation, InstanceCount=1)


def test_reservations_are_filtered_and_paginated(aws: Any) -> None:
    ec2 = aws("ec2", "us-east-2")
    for zone in ("us-east-2a", "us-east-2b", "us-east-2b"):
        _reserve(ec2, AvailabilityZone=zone)
    filters = [
        {"Name": "availability-zone", "Values": ["us-east-2b"]},
        {"Name": "state", "Values": ["active"]},
    ]
    found = ec2.describe_capacity_reservations(Filters=filters)["CapacityReservations"]
    assert [one["AvailabilityZone"] for one in found] == ["us-east-2b", "us-east-2b"]
    first = ec2.describe_capacity_reservations(MaxResults=2)
    rest = ec2.describe_capacity_reservations(MaxResults=2, NextToken=first["NextToken"])
    assert [len(first["CapacityReservations"]), len(rest["CapacityReservations"])] == [2, 1]
    assert "NextToken" not in rest


def test_invalid_reservation_is_refused(aws: Any, refused: Any) -> None:
    ec2 = aws("ec2")
    past = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    with refused("InvalidInstanceType"):
        _reserve(ec2, InstanceType="p9.900xlarge")
    with refused("InvalidParameterValue"):
        _reserve(ec2, AvailabilityZone="us-west-2a")
    with refused("InvalidParameterValue"):
        _reserve(ec2, InstanceCount=0)
    with refused("MissingParameter"):
        _reserve(ec2, EndDateType="limited")
    with refused("InvalidParameterValue"):
        _reserve(ec2, EndDateType="limited", EndDate=past)
    with refused("InvalidPlacementGroup.Unknown"):
        _reserve(ec2, PlacementGroupArn="arn:aws:ec2:us-east-1:123456789012:placement-group/absent")
    with refused("InvalidParameterValue"):
        _reserve(ec2, TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}])
    with refused("InvalidCapacityReservationId.NotFound"):
        ec2.cancel_capacity_reservation(CapacityReservationId="cr-00000000000000000")


def test_only_a_cluster_placement_group_accepts_a_reservation(aws: Any, refused: Any) -> None:
    ec2 = aws("ec2")
    near = ec2.create_placement_group(GroupName="near", Strategy="cluster")["PlacementGroup"]["GroupArn"]
    far = ec2.create_placement_group(GroupName="far", Strategy="spread")["PlacementGroup"]["GroupArn"]
    assert _reserve(ec2, PlacementGroupArn=near)["PlacementGroupArn"] == near
    with refused("InvalidParameterValue"):
        _reserve(ec2, PlacementGroupArn=far)


def test_instances_that_target_a_reservation_use_its_capacity(aws: Any, refused: Any, network: Any) -> None:
    ec2 = aws("ec2")
    reservation = _reserve(ec2, InstanceMatchCriteria="targeted")["CapacityReservationId"]

    def launch(count: int, subnet: str, instance_type: str = "p5.48xlarge") -> Any:
        target = {"CapacityReservationId": reservation}
        return ec2.run_instances(
            ImageId="ami-12345678",
            InstanceType=instance_type,
            MinCount=count,
            MaxCount=count,
            SubnetId=subnet,
            CapacityReservationSpecification={"CapacityReservationTarget": target},
        )["Instances"]

    with refused("InvalidParameterCombination"):
        launch(1, network.subnets[1])
    with refused("InvalidParameterCombination"):
        launch(1, network.subnets[0], "p4d.24xlarge")
    with refused("ReservationCapacityExceeded"):
        launch(3, network.subnets[0])
    launched = launch(2, network.subnets[0])
    found = ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])["CapacityReservations"][
        0
    ]
    assert found["AvailableInstanceCount"] == 0
    with refused("InvalidParameterValue"):
        ec2.modify_capacity_reservation(CapacityReservationId=reservation, InstanceCount=1)
    ec2.terminate_instances(InstanceIds=[one["InstanceId"] for one in launched])
    found = ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])["CapacityReservations"][
        0
    ]
    assert found["AvailableInstanceCount"] == 2


def test_offerings_start_and_end_at_the_day_boundary_within_eight_weeks(aws: Any) -> None:
    ec2, now = aws("ec2"), dt.datetime.now(dt.UTC)
    offers = _offers(ec2)
    assert offers
    for one in offers:
        assert (one["StartDate"].hour, one["StartDate"].minute) == (11, 30)
        assert now < one["StartDate"] <= now + dt.timedelta(weeks=8)
        assert one["EndDate"] - one["StartDate"] == dt.timedelta(days=14)
        duration = (one["CapacityBlockDurationHours"], one["CapacityBlockDurationMinutes"])
        assert duration == (336, 0), "the minutes are in addition to the hours"
        assert (one["InstanceCount"], one["CurrencyCode"]) == (4, "USD")
    zones = {one["AvailabilityZone"] for one in offers}
    assert zones <= {z["ZoneName"] for z in ec2.describe_availability_zones()["AvailabilityZones"]}
    assert _offers(ec2) == offers, "the same question gives the same offerings"


def test_offerings_are_within_the_requested_range(aws: Any) -> None:
    ec2 = aws("ec2")
    start = dt.datetime.now(dt.UTC) + dt.timedelta(days=10)
    offers = _offers(ec2, 2 * DAY, StartDateRange=start, EndDateRange=start + dt.timedelta(days=4))
    assert offers
    assert all(one["StartDate"] >= start for one in offers)
    assert all(one["EndDate"] <= start + dt.timedelta(days=4) for one in offers)


@pytest.mark.parametrize("days", [1, 13, 14, 21, 28, 182])
def test_valid_durations_are_offered(aws: Any, days: int) -> None:
    assert _offers(aws("ec2"), days * DAY)


@pytest.mark.parametrize("hours", [12, 25, 15 * DAY, 20 * DAY, 183 * DAY, 189 * DAY])
def test_invalid_durations_are_refused(aws: Any, refused: Any, hours: int) -> None:
    with refused("InvalidParameterValue"):
        _offers(aws("ec2"), hours)


@pytest.mark.parametrize(
    "more", [{"InstanceCount": 65}, {"InstanceCount": 0}, {"InstanceType": "g6e.48xlarge"}]
)
def test_unsupported_blocks_are_never_offered(aws: Any, refused: Any, more: dict[str, Any]) -> None:
    with refused("InvalidParameterValue"):
        _offers(aws("ec2"), **more)


def test_known_price_is_charged_and_an_unknown_one_is_marked(aws: Any) -> None:
    known = load_catalog().instances["p5.48xlarge"].capacity_block["us-east-1"].amount
    assert known is not None
    offer = _offers(aws("ec2"), DAY)[0]
    assert Decimal(offer["UpfrontFee"]) == (known * 4 * 24).quantize(Decimal("0.01"))
    assert "fictitious" not in offer["CapacityBlockOfferingId"]
    unknown = _offers(aws("ec2", "ca-central-1"), DAY)[0]
    assert "fictitious" in unknown["CapacityBlockOfferingId"]


def test_bought_block_is_scheduled_and_cannot_be_cancelled(aws: Any, refused: Any, tags: Any) -> None:
    ec2 = aws("ec2", "us-west-2")
    offer = _offers(ec2, DAY)[0]
    bought = ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offer["CapacityBlockOfferingId"],
        TagSpecifications=tags("capacity-reservation", fleet="atlas"),
        **LINUX,
    )
    reservation, (block,) = bought["CapacityReservation"], bought["CapacityBlocks"]
    assert (reservation["ReservationType"], reservation["State"]) == ("capacity-block", "scheduled")
    assert (reservation["StartDate"], reservation["EndDate"]) == (offer["StartDate"], offer["EndDate"])
    assert reservation["CapacityBlockId"] == block["CapacityBlockId"]
    assert reservation["InstanceMatchCriteria"] == "targeted"
    assert block["CapacityReservationIds"] == [reservation["CapacityReservationId"]]
    assert block["Tags"] == reservation["Tags"] == [{"Key": "fleet", "Value": "atlas"}]
    assert ec2.describe_capacity_blocks()["CapacityBlocks"] == [block]
    status = ec2.describe_capacity_block_status()["CapacityBlockStatuses"][0]
    assert (status["TotalCapacity"], status["InterconnectStatus"]) == (4, "ok")
    with refused("InvalidRequest"):
        ec2.cancel_capacity_reservation(CapacityReservationId=reservation["CapacityReservationId"])
    with refused("InvalidRequest"):
        ec2.modify_capacity_reservation(
            CapacityReservationId=reservation["CapacityReservationId"], InstanceCount=8
        )
    with refused("InvalidCapacityBlockOfferingId.NotFound"):
        ec2.purchase_capacity_block(CapacityBlockOfferingId="cbo-00000000000000000", **LINUX)


def test_account_holds_at_most_256_instances_in_blocks(aws: Any, refused: Any) -> None:
    ec2 = aws("ec2", "us-east-2")
    offer = _offers(ec2, DAY, InstanceCount=64)[0]["CapacityBlockOfferingId"]
    for _ in range(4):
        ec2.purchase_capacity_block(CapacityBlockOfferingId=offer, **LINUX)
    with refused("CapacityBlockInstanceLimitExceeded"):
        ec2.purchase_capacity_block(CapacityBlockOfferingId=offer, **LINUX)


def test_block_becomes_active_and_expires_over_time(monkeypatch: pytest.MonkeyPatch, refused: Any) -> None:
    backends.install("ec2")
    from gpufleet.lab.aws.backends import ec2_capacity_blocks, ec2_capacity_reservations, ec2_instances

    with mock_aws():
        ec2 = boto3.client("ec2", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y")
        offer = _offers(ec2, DAY)[0]
        bought = ec2.purchase_capacity_block(
            CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], **LINUX
        )["CapacityReservation"]

        def at(moment: dt.datetime) -> Any:
            for module in (ec2_capacity_blocks, ec2_capacity_reservations, ec2_instances):
                monkeypatch.setattr(module, "utcnow", lambda: moment.astimezone(dt.UTC).replace(tzinfo=None))
            return ec2.describe_capacity_reservations()["CapacityReservations"][0]

        def launch() -> None:
            target = {"CapacityReservationId": bought["CapacityReservationId"]}
            ec2.run_instances(
                ImageId="ami-12345678",
                InstanceType="p5.48xlarge",
                MinCount=1,
                MaxCount=1,
                Placement={"AvailabilityZone": offer["AvailabilityZone"]},
                InstanceMarketOptions={"MarketType": "capacity-block"},
                CapacityReservationSpecification={"CapacityReservationTarget": target},
            )

        assert at(offer["StartDate"] - dt.timedelta(minutes=1))["State"] == "scheduled"
        with refused("InvalidCapacityReservationState"):
            launch()
        active = at(offer["StartDate"])
        assert (active["State"], active["AvailableInstanceCount"]) == ("active", 4)
        launch()
        assert at(offer["StartDate"])["AvailableInstanceCount"] == 3
        expired = at(offer["EndDate"])
        assert (expired["State"], expired["TotalInstanceCount"]) == ("expired", 0)
        assert ec2.describe_capacity_blocks()["CapacityBlocks"][0]["State"] == "expired"
        with refused("InvalidCapacityBlockOfferingId.NotFound"):
            ec2.purchase_capacity_block(CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], **LINUX)
