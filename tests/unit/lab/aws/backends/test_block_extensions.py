"""Extensions of Capacity Blocks in the emulated AWS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

DAY = timedelta(days=1)


def buy(aws: Any, days: int = 2, start: timedelta = 2 * DAY) -> dict[str, Any]:
    ec2 = aws("ec2")
    offered = ec2.describe_capacity_block_offerings(
        InstanceType="p5.48xlarge",
        InstanceCount=1,
        CapacityDurationHours=24 * days,
        StartDateRange=datetime.now(UTC) + start,
    )["CapacityBlockOfferings"][0]
    made: dict[str, Any] = ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offered["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
    )["CapacityReservation"]
    return made | {"UpfrontFee": offered["UpfrontFee"]}


def offer(aws: Any, block: str, hours: int = 24) -> dict[str, Any]:
    (found,) = aws("ec2").describe_capacity_block_extension_offerings(
        CapacityReservationId=block, CapacityBlockExtensionDurationHours=hours
    )["CapacityBlockExtensionOfferings"]
    return dict(found)


def test_offering_begins_at_the_end_of_the_block_and_has_its_rate(aws: Any) -> None:
    held = buy(aws)
    found = offer(aws, held["CapacityReservationId"])
    assert found["CapacityBlockExtensionStartDate"] == held["EndDate"]
    assert found["CapacityBlockExtensionEndDate"] == held["EndDate"] + DAY
    assert float(found["UpfrontFee"]) == pytest.approx(float(held["UpfrontFee"]) / 2)
    assert (found["InstanceType"], found["InstanceCount"]) == ("p5.48xlarge", 1)


def test_purchase_moves_the_end_and_is_in_the_history(aws: Any) -> None:
    ec2, held = aws("ec2"), buy(aws)
    block = held["CapacityReservationId"]
    (made,) = ec2.purchase_capacity_block_extension(
        CapacityReservationId=block,
        CapacityBlockExtensionOfferingId=offer(aws, block)["CapacityBlockExtensionOfferingId"],
    )["CapacityBlockExtensions"]
    assert made["CapacityBlockExtensionStatus"] == "payment-succeeded"
    (now,) = ec2.describe_capacity_reservations(CapacityReservationIds=[block])["CapacityReservations"]
    assert now["EndDate"] == held["EndDate"] + DAY
    assert ec2.describe_capacity_block_extension_history(CapacityReservationIds=[block])[
        "CapacityBlockExtensions"
    ] == [made]
    filters = [{"Name": "capacity-block-extension-status", "Values": ["payment-failed"]}]
    found = ec2.describe_capacity_block_extension_history(CapacityReservationIds=[block], Filters=filters)
    assert found["CapacityBlockExtensions"] == []


def test_offering_is_bought_once(aws: Any, refused: Any) -> None:
    block = buy(aws)["CapacityReservationId"]
    wanted = {
        "CapacityReservationId": block,
        "CapacityBlockExtensionOfferingId": offer(aws, block)["CapacityBlockExtensionOfferingId"],
    }
    aws("ec2").purchase_capacity_block_extension(**wanted)
    with refused("InvalidCapacityBlockExtensionOfferingId.NotFound"):
        aws("ec2").purchase_capacity_block_extension(**wanted)


def test_block_is_extended_from_56_days_before_its_end(aws: Any, refused: Any) -> None:
    far = buy(aws, days=56, start=3 * DAY)["CapacityReservationId"]
    with refused("InvalidParameterValue"):
        offer(aws, far)


@pytest.mark.parametrize("hours", [1, 25, 24 * 15])
def test_length_is_that_of_a_block(aws: Any, refused: Any, hours: int) -> None:
    block = buy(aws)["CapacityReservationId"]
    with refused("InvalidParameterValue"):
        offer(aws, block, hours)


def test_only_blocks_are_extended(aws: Any, refused: Any) -> None:
    made = aws("ec2").create_capacity_reservation(
        InstanceType="g6.xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=1,
    )["CapacityReservation"]["CapacityReservationId"]
    with refused("InvalidParameterValue"):
        offer(aws, made)
    with refused("InvalidCapacityReservationId.NotFound"):
        offer(aws, "cr-00000000000000000")
